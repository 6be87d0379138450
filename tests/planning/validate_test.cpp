// What is wrong with a schedule, in words.
#include "planning/validate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/planning/schedule_vectors.hpp"

namespace stagecraft::pipelines {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = ScheduleFault::Kind;

PipelineProblem two_stages(std::uint32_t micro_batches = 2) {
  return uniform_problem(shape_of(2, micro_batches), {10ms, 10ms, 10ms});
}

std::vector<ScheduleFault> faults_of(const PipelineProblem& problem, std::string_view text,
                                     std::optional<std::uint32_t> credits = std::nullopt) {
  return validate(problem, parse_schedule(text).value(), credits);
}

std::vector<Kind> kinds_of(const std::vector<ScheduleFault>& faults) {
  std::vector<Kind> kinds;
  for (const ScheduleFault& fault : faults) kinds.push_back(fault.kind);
  return kinds;
}

TEST(Validate, finds_nothing_wrong_with_what_the_generators_make) {
  for (const ScheduleKind kind :
       {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved, ScheduleKind::bfs,
        ScheduleKind::zb_h1, ScheduleKind::zb_h2, ScheduleKind::zb_auto, ScheduleKind::zb_v, ScheduleKind::v_half,
        ScheduleKind::v_min, ScheduleKind::pipemorph})
    for (const std::uint32_t m : {0U, 1U, 3U, 8U}) {
      const PipelineProblem problem = uniform_problem(shape_for(kind, 4, m, 2), {10ms, 10ms, 10ms});
      for (const ScheduleFault& fault : validate(problem, generate(kind, problem), 2)) ADD_FAILURE() << fault.text;
    }
}

TEST(Validate, wants_one_list_per_stage) {
  const auto faults = faults_of(two_stages(), "0F0 0B0 0W0 0F1 0B1 0W1");
  ASSERT_THAT(kinds_of(faults), ElementsAre(Kind::stages));
  EXPECT_EQ(faults[0].text, "the schedule has 1 list for a pipeline of 2 stages: write one line per stage");
}

TEST(Validate, names_operators_that_stand_in_the_wrong_place) {
  const auto faults = faults_of(two_stages(), "0F0 0F1 0X0 0X1 1F0 2F0 0F2\n1F0 1F1 1X0 1X1");
  ASSERT_THAT(kinds_of(faults), ElementsAre(Kind::foreign, Kind::foreign, Kind::foreign));
  EXPECT_EQ(faults[0].text, "stage 0 lists 1F0, but chunk 1 lives on stage 1: move it there");
  EXPECT_EQ(faults[1].text, "stage 0 lists 2F0, but the model has chunks 0 to 1: take it out");
  EXPECT_EQ(faults[2].text, "stage 0 lists 0F2, but this replica has 2 micro-batches from 0 on: take it out");
}

TEST(Validate, names_operators_that_are_there_twice_or_not_at_all) {
  const auto faults = faults_of(two_stages(4), "0F0 0F0 0F1 0F2 0F3 0X0 0X1 0X2 0X3\n1F0 1X0");
  ASSERT_THAT(kinds_of(faults), ElementsAre(Kind::repeated, Kind::missing, Kind::missing, Kind::missing));
  EXPECT_EQ(faults[0].text, "stage 0 lists 0F0 2 times, but an operator runs once: keep one of them");
  EXPECT_EQ(faults[1].text,
            "stage 1 lacks 1F1 and 2 more like it: every micro-batch runs forward and backward once on every chunk; "
            "add them");
  EXPECT_EQ(faults[2].op, parse_operator("1B1"));
  EXPECT_EQ(faults[3].op, parse_operator("1W1"));
}

TEST(Validate, wants_backward_in_one_piece_or_in_two) {
  const auto faults = faults_of(two_stages(1), "0F0 0X0 0W0\n1F0 1B0 1W0");
  ASSERT_THAT(kinds_of(faults), ElementsAre(Kind::mixed_backward));
  EXPECT_EQ(faults[0].text, "stage 0 lists 0W0 and also 0X0, which holds the same work: write X, or B and W");
}

TEST(Validate, wants_the_weight_gradients_of_a_chunk_in_order) {
  const auto faults = faults_of(two_stages(), "0F0 0F1 0B0 0B1 0W1 0W0\n1F0 1F1 1X0 1X1");
  ASSERT_THAT(kinds_of(faults), ElementsAre(Kind::weight_order, Kind::blocked));
  EXPECT_EQ(faults[0].text,
            "stage 0 lists 0W0 after 0W1, but the weight gradients of a chunk add up in increasing order, which keeps "
            "the bits: put 0W0 first");
  EXPECT_THAT(faults[1].text, HasSubstr("0W1 waits for the weight gradient before it (0W0 of stage 0 has not run)"));
}

constexpr std::string_view circular = "0F0 0X0 0F1 0X1\n1F0 1F1 1X0 1X1";

TEST(Validate, explains_stages_that_wait_for_each_other) {
  const auto faults = faults_of(two_stages(), circular);
  ASSERT_THAT(kinds_of(faults), ElementsAre(Kind::blocked, Kind::blocked));
  EXPECT_EQ(faults[0].text,
            "stage 0 can't proceed: 0X0 waits for its gradient from chunk 1 (1X0 of stage 1 has not run), in a circle: "
            "0X0 waits for 1X0, which comes after 1F1 in the list of stage 1; 1F1 waits for 0F1, which comes after 0X0 "
            "in the list of stage 0; change the order of one of these lists");
  EXPECT_EQ(faults[1].op, parse_operator("1F1"));
}

TEST(Validate, draws_what_hangs_as_a_grid_with_arrows) {
  const PipelineProblem problem = uniform_problem(shape_of(3, 6), {10ms, 10ms, 10ms});
  const Schedule schedule = parse_schedule(
                                "0F0 0F1 0F2 0F3 0F4 0X0 0X1 0F5 0X2 0X3 0X4 0X5\n"
                                "1F0 1F1 1X0 1F2 1X1 1F3 1F4 1F5 1X2 1X3 1X4 1X5\n"
                                "2F0 2X0 2F1 2X1 2F2 2F3 2F4 2F5 2X2 2X3 2X4 2X5")
                                .value();
  EXPECT_THAT(validate(problem, schedule), IsEmpty()) << "two forwards more would do";
  const Schedule late = parse_schedule(
                            "0F0 0F1 0F2 0F3 0F4 0X0 0X1 0X2 0F5 0X3 0X4 0X5\n"
                            "1F0 1F1 1X0 1F2 1X1 1F3 1F4 1F5 1X2 1X3 1X4 1X5\n"
                            "2F0 2X0 2F1 2X1 2F2 2X2 2F3 2X3 2F4 2X4 2F5 2X5")
                            .value();
  EXPECT_EQ(draw_blocked(problem, late, replay(problem, late)),
            "stage 0 | .. 0F3 0F4 0X0 0X1 > 0X2 waits for its gradient from chunk 1 (1X2 of stage 1 has not run)\n"
            "stage 1 | .. 1F2 1X1 1F3 1F4 > 1F5 waits for its input from chunk 0 (0F5 of stage 0 has not run)\n"
            "stage 2 | .. 2F3 2X3 2F4 2X4 > 2F5 waits for its input from chunk 1 (1F5 of stage 1 has not run)\n"
            "a circle: 0X2 waits for 1X2, which comes after 1F5 in the list of stage 1; 1F5 waits for 0F5, which comes "
            "after 0X2 in the list of stage 0\n");
}

TEST(Validate, draws_lists_that_end_too_early) {
  const PipelineProblem problem = two_stages();
  const Schedule schedule = parse_schedule("0F0 0X0 0F1\n1F0 1X0 1X1 1F1").value();
  EXPECT_EQ(draw_blocked(problem, schedule, replay(problem, schedule)),
            "stage 0 | 0F0 0X0 0F1   end of the list\n"
            "stage 1 |     1F0 1X0 > 1X1 waits for its own forward (1F1 of stage 1 has not run)\n"
            "a circle: 1X1 waits for 1F1, which comes after 1X1 in the list of stage 1\n");
}

TEST(Validate, names_the_first_operator_above_each_cap) {
  PipelineProblem problem = two_stages(3);
  problem.caps = {{2U, {}, 2U}, {{}, 1U, {}}};
  const auto faults = faults_of(problem, "0F0 0F1 0F2 0B0 0B1 0B2 0W0 0W1 0W2\n1F0 1B0 1F1 1B1 1W0 1F2 1B2 1W1 1W2");
  ASSERT_THAT(kinds_of(faults), ElementsAre(Kind::cap, Kind::cap, Kind::cap));
  EXPECT_EQ(faults[0].text,
            "stage 0 may hold 2 activations (F - B), and 0F2 is the first to exceed that; the list needs 3: run "
            "backwards before it, or raise the cap to 3");
  EXPECT_THAT(faults[1].text, HasSubstr("(F - W), and 0F2 is the first"));
  EXPECT_EQ(faults[2].text,
            "stage 1 may hold 1 pending weight gradients (B - W), and 1B1 is the first to exceed that; the list needs "
            "2: run W before it, or raise the cap to 2");
  problem.caps = {{3U, 3U, 3U}, {1U, 2U, 2U}};
  EXPECT_THAT(faults_of(problem, "0F0 0F1 0F2 0X0 0X1 0X2\n1F0 1B0 1F1 1B1 1W0 1F2 1B2 1W1 1W2"), IsEmpty())
      << "exactly what they may hold";
}

TEST(Validate, counts_the_credits_that_another_order_on_the_far_side_needs) {
  // Stage 1 takes the micro-batches from the last to the first, stage 0 sends them from the first.
  const PipelineProblem problem = two_stages(3);
  constexpr std::string_view text = "0F0 0F1 0F2 0B0 0B1 0B2 0W0 0W1 0W2\n1F2 1F1 1F0 1B0 1B1 1B2 1W0 1W1 1W2";
  EXPECT_THAT(faults_of(problem, text, 3), IsEmpty());
  EXPECT_THAT(faults_of(problem, text), IsEmpty());
  const auto faults = faults_of(problem, text, 2);
  ASSERT_THAT(kinds_of(faults), ElementsAre(Kind::credits, Kind::credits));
  EXPECT_EQ(faults[1].text,
            "with 2 credits per link direction stage 1 can't proceed: 1F2 waits for a free slot on the link: its input "
            "is ready, but other tensors hold every credit; give it 3, or list the micro-batches in the same order on "
            "both sides");
}

}  // namespace
}  // namespace stagecraft::pipelines
