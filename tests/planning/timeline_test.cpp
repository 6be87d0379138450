#include "planning/timeline.hpp"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace stagecraft {
namespace {

using namespace std::chrono_literals;

// "F0" on a stage from one ms to another; chunk: the stage's first.
TimedOperator run(std::uint32_t stage, std::string_view text, int begin_ms, int end_ms, std::uint32_t replica = 0) {
  const auto op = parse_operator(fmt::format("{}{}", stage, text));
  return {{{stage}, {replica}}, op.value(), begin_ms * 1ms, end_ms * 1ms};
}

// Two stages, two micro-batches, F 10 ms, X 20 ms, in the order of 1f1b.
std::vector<TimedOperator> small_pipeline() {
  return {run(0, "F0", 0, 10),  run(0, "F1", 10, 20), run(1, "F0", 10, 20), run(1, "X0", 20, 40),
          run(1, "F1", 40, 50), run(0, "X0", 40, 60), run(1, "X1", 50, 70), run(0, "X1", 70, 90)};
}

std::size_t widest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find('|') != std::string::npos) widest = std::max(widest, line.size());
  }
  return widest;
}

TEST(Timeline, a_small_pipeline_shows_its_forwards_backwards_and_bubbles) {
  EXPECT_EQ(draw_timeline(small_pipeline(), 50),
            "stage 0 |F0-F1-      X0----   X1----| idle 33.3 %\n"
            "stage 1 |   F0-X0----F1-X1----      | idle 33.3 %\n"
            "     ms  |0             |50\n"
            "90 ms in all, idle 33.3 % over all stages\n"
            "F forward, X backward (B and W in one), blank idle; number: micro-batch\n");
}

TEST(Timeline, input_and_weight_gradients_are_cells_of_their_own) {
  const auto text = draw_timeline({run(0, "F0", 0, 1), run(0, "B0", 1, 2), run(0, "W0", 3, 4)}, 43);
  EXPECT_EQ(text,
            "stage 0 |F0---B0---     W0---| idle 25.0 %\n"
            "     ms  |0        |2\n"
            "4 ms in all, idle 25.0 % over all stages\n"
            "F forward, B input gradient, W weight gradient, blank idle; number: micro-batch\n");
}

TEST(Timeline, rows_are_ordered_by_stage_and_replica) {
  const auto text =
      draw_timeline({run(1, "F1", 5, 10, 1), run(1, "F0", 5, 10, 0), run(0, "F1", 0, 5, 1), run(0, "F0", 0, 5, 0)}, 46);
  EXPECT_EQ(text,
            "stage 0 r0 |F0--------          | idle 50.0 %\n"
            "stage 0 r1 |F1--------          | idle 50.0 %\n"
            "stage 1 r0 |          F0--------| idle 50.0 %\n"
            "stage 1 r1 |          F1--------| idle 50.0 %\n"
            "        ms  |0        |5\n"
            "10 ms in all, idle 50.0 % over all stages\n"
            "F forward, blank idle; number: micro-batch\n");
}

TEST(Timeline, two_digits_that_do_not_fit_become_the_last_one_everywhere) {
  std::vector<TimedOperator> operators;
  for (int i = 0; i < 10; ++i) operators.push_back(run(0, fmt::format("F{}", i + 5), i, i + 1));
  EXPECT_EQ(draw_timeline(operators, 43),
            "stage 0 |F5F6F7F8F9F0F1F2F3F4| idle 0.0 %\n"
            "     ms  |0        |5\n"
            "10 ms in all, idle 0.0 % over all stages\n"
            "F forward, blank idle; digit: last of the micro-batch\n");
}

TEST(Timeline, many_operators_leave_only_letters) {
  std::vector<TimedOperator> operators;
  for (int i = 0; i < 10; ++i) {
    operators.push_back(run(0, "F0", 2 * i, 2 * i + 1));
    operators.push_back(run(0, "X0", 2 * i + 1, 2 * i + 2));
  }
  EXPECT_EQ(draw_timeline(operators, 43),
            "stage 0 |FXFXFXFXFXFXFXFXFXFX| idle 0.0 %\n"
            "     ms  |0        |10\n"
            "20 ms in all, idle 0.0 % over all stages\n"
            "F forward, X backward (B and W in one), blank idle\n");
}

TEST(Timeline, a_later_chunk_of_a_stage_is_named_or_in_lower_case) {
  const TimedOperator early = run(0, "F3", 0, 5);
  TimedOperator late = run(0, "F3", 5, 10);
  late.op.chunk = {2};
  EXPECT_NE(draw_timeline({early, late}, 43).find("|0F3-------2F3-------|"), std::string::npos);

  std::vector<TimedOperator> dense;
  for (int i = 0; i < 10; ++i) {
    TimedOperator timed = i % 2 ? late : early;
    timed.start = i * 1ms, timed.end = (i + 1) * 1ms;
    dense.push_back(timed);
  }
  const auto text = draw_timeline(dense, 43);
  EXPECT_NE(text.find("|F3f3F3f3F3f3F3f3F3f3|"), std::string::npos) << text;
  EXPECT_NE(text.find("lower case: a later chunk"), std::string::npos) << text;
}

TEST(Timeline, overhead_is_busy_but_no_operator) {
  TimedOperator step = run(0, "F0", 15, 20);
  step.overhead = true;
  EXPECT_EQ(draw_timeline({run(0, "X0", 0, 10), step}, 43),
            "stage 0 |X0--------     +++++| idle 25.0 %\n"
            "     ms  |0        |10\n"
            "20 ms in all, idle 25.0 % over all stages\n"
            "X backward (B and W in one), + reduce, norm and step, blank idle; number: micro-batch\n");
}

TEST(Timeline, rows_with_bars_keep_to_the_width) {
  for (std::size_t width : {60u, 100u, 120u, 200u})
    EXPECT_LE(widest_line(draw_timeline(small_pipeline(), width)), width);
  EXPECT_EQ(draw_timeline(small_pipeline(), 0), draw_timeline(small_pipeline(), 43)) << "20 columns of time at least";
}

TEST(Timeline, time_starts_with_the_first_operator) {
  auto late = small_pipeline();
  for (auto& timed : late) timed.start += 3600s, timed.end += 3600s;
  EXPECT_EQ(draw_timeline(late, 100), draw_timeline(small_pipeline(), 100));
}

TEST(Timeline, nothing_and_no_time_at_all_are_drawn_too) {
  EXPECT_EQ(draw_timeline({}, 100), "no operator ran\n");
  EXPECT_NE(draw_timeline({run(0, "F0", 5, 5)}, 43).find("stage 0 |F"), std::string::npos);
}

}  // namespace
}  // namespace stagecraft
