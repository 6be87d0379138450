// What a link that nobody knew to be slow costs: the worked example and the table of `follow` to the millisecond, the
// slopes of the law behind them, and what following gains over replaying on average.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "planning/generate/pipemorph.hpp"
#include "tests/planning/follow_cases.hpp"
#include "tests/planning/schedule_vectors.hpp"

namespace stagecraft::pipelines {
namespace {

using Warmup = std::vector<std::uint32_t>;

PipelineProblem with_delay(PipelineProblem problem, std::size_t link, Duration delay) {
  problem.forward_links[link].latency += delay;
  problem.backward_links[link].latency += delay;
  return problem;
}

// A pipeline and the list that it replays: made greedily, B before F before W, while no link is slow.
struct Example {
  PipelineProblem problem;
  Warmup warmup;
  Schedule schedule;

  Duration replayed(std::size_t link, Duration delay) const {
    return replay(with_delay(problem, link, delay), schedule).makespan;
  }
  // Every stage takes what is ready, with `warmup` forwards before its first backward.
  Duration reactive(std::size_t link, Duration delay) const {
    const PipelineProblem truth = with_delay(problem, link, delay);
    SimulationInput input = input_of(truth.shape, reactive_plans(truth.shape), truth.times[0]);
    for (std::size_t s = 0; s < warmup.size(); ++s) input.plans[s].warmup = warmup[s];
    input.forward_links = truth.forward_links;
    input.backward_links = truth.backward_links;
    return simulate(input).makespan;
  }
  Duration followed(std::size_t link, Duration delay, std::optional<std::uint32_t> more = std::nullopt) const {
    PipelineProblem capped = problem;
    if (more)
      for (const std::uint32_t w : warmup) capped.caps.push_back({w + *more, {}, {}});
    const Planned planned{capped, schedule, replay(capped, schedule)};
    return simulate(follow_input(planned, with_delay(capped, link, delay))).makespan;
  }
};

Example greedy(std::uint32_t p, std::uint32_t m, const OperatorTimes& times) {
  const PipelineProblem problem = uniform_problem(shape_of(p, m), times);
  const Warmup warmup = natural_warmup(ScheduleKind::zb_h2, problem.shape);
  return {problem, warmup, generate(ScheduleKind::pipemorph, problem, {warmup, false})};
}

Example worked_example() { return greedy(4, 12, {10ms, 10ms, 10ms}); }
// The 14-billion-parameter model of the publication: about 9, 10 and 6 ms on each of 8 stages.
Example large_example() { return greedy(8, 24, {9ms, 10ms, 6ms}); }

TEST(WorkedExample, costs_what_the_publication_and_its_law_say_row_by_row) {
  struct Row {
    Duration delay, replayed, reactive, replanned, one_f_one_b;
  };
  const Example example = worked_example();
  EXPECT_EQ(example.warmup, (Warmup{7, 5, 3, 1}));
  const Schedule fused = natural(ScheduleKind::one_f_one_b, example.problem.shape);
  for (const Row& row : {Row{0ms, 390ms, 390ms, 390ms, 450ms}, Row{10ms, 400ms, 400ms, 400ms, 550ms},
                         Row{15ms, 410ms, 405ms, 405ms, 600ms}, Row{20ms, 440ms, 410ms, 410ms, 650ms},
                         Row{30ms, 500ms, 420ms, 420ms, 750ms}, Row{40ms, 560ms, 440ms, 430ms, 850ms}}) {
    SCOPED_TRACE(format(row.delay) + " on link 0-1");
    const PipelineProblem truth = with_delay(example.problem, 0, row.delay);
    EXPECT_EQ(example.replayed(0, row.delay), row.replayed);
    EXPECT_EQ(example.reactive(0, row.delay), row.reactive);
    EXPECT_EQ(replay(truth, generate(ScheduleKind::pipemorph, truth)).makespan, row.replanned);
    EXPECT_EQ(replay(truth, fused).makespan, row.one_f_one_b);
  }
}

TEST(WorkedExample, is_followed_at_the_price_of_the_delay_alone) {
  const Example example = worked_example();
  for (const auto& [delay, expected] :
       {std::pair(0ms, 390ms), std::pair(10ms, 400ms), std::pair(20ms, 410ms), std::pair(40ms, 430ms)})
    EXPECT_EQ(example.followed(0, delay), expected) << delay.count();
}

TEST(LargeExample, follow_costs_the_delay_where_replay_costs_eighteen_times_as_much) {
  struct Row {
    Duration delay, replayed, reactive, followed;
  };
  const Example example = large_example();
  for (const Row& row : {Row{0ms, 663ms, 663ms, 663ms}, Row{20ms, 842ms, 695ms, 683ms}, Row{40ms, 1162ms, 746ms, 703ms},
                         Row{60ms, 1482ms, 819ms, 723ms}}) {
    SCOPED_TRACE(format(row.delay) + " on link 6-7");
    EXPECT_EQ(example.replayed(6, row.delay), row.replayed);
    EXPECT_EQ(example.reactive(6, row.delay), row.reactive);
    EXPECT_EQ(example.followed(6, row.delay), row.followed);
  }
  EXPECT_EQ(example.replayed(0, 60ms), 1030ms) << "on the first link, where there is more slack";
}

TEST(LargeExample, six_more_activations_per_stage_are_all_that_follow_needs) {
  const Example example = large_example();
  for (const auto& [more, expected] :
       {std::pair(0U, 1422ms), std::pair(2U, 967ms), std::pair(4U, 790ms), std::pair(6U, 723ms)})
    EXPECT_EQ(example.followed(6, 60ms, more), expected) << more;
}

// What one more ms of delay costs, from 40 to 60 ms.
template <class Makespan>
double slope(const Makespan& makespan) {
  return static_cast<double>((makespan(60ms) - makespan(40ms)).count()) / 20e6;
}

TEST(Slopes, replay_pays_a_round_trip_for_every_slack_and_one_micro_batches) {
  const Example small = worked_example(), large = large_example();
  EXPECT_EQ(slope([&](Duration c) { return small.replayed(0, c); }), 6);
  EXPECT_EQ(slope([&](Duration c) { return small.replayed(2, c); }), 8);
  EXPECT_EQ(slope([&](Duration c) { return large.replayed(6, c); }), 16);
  const Schedule fused = natural(ScheduleKind::one_f_one_b, large.problem.shape);
  EXPECT_EQ(slope([&](Duration c) { return replay(with_delay(large.problem, 6, c), fused).makespan; }), 24);
}

// The published transport: a message occupies the link, and both directions take turns on it.
TEST(Slopes, a_shared_occupied_link_costs_every_micro_batch_both_ways) {
  const Example large = large_example();
  const auto occupied = [&](Duration c, bool shared) {
    PipelineProblem truth = large.problem;
    truth.forward_links[6].occupancy = truth.backward_links[6].occupancy = c;
    truth.forward_links[6].shared = truth.backward_links[6].shared = shared;
    return replay(truth, large.schedule).makespan;
  };
  EXPECT_EQ(slope([&](Duration c) { return occupied(c, true); }), 48);
  EXPECT_EQ(slope([&](Duration c) { return occupied(c, false); }), 25)
      << "once per micro-batch, and one on the way back";
}

// One link occupied by every message: device-ordered with a queue of that length, or over that many delegates.
struct Transport {
  std::optional<std::uint32_t> queue;
  std::uint32_t lanes = 1;
};
Duration over(const Example& example, std::size_t link, Duration occupancy, Transport transport, Dispatch dispatch) {
  PipelineProblem truth = example.problem;
  truth.forward_links[link].occupancy = occupancy;
  truth.forward_links[link].queue = transport.queue;
  truth.forward_links[link].lanes = transport.lanes;
  truth.backward_links[link] = truth.forward_links[link];
  SimulationInput input =
      follow_input({example.problem, example.schedule, replay(example.problem, example.schedule)}, truth);
  if (dispatch == Dispatch::reactive) input.plans = reactive_plans(truth.shape);
  for (std::size_t s = 0; s < example.warmup.size(); ++s) input.plans[s].warmup = example.warmup[s];
  return simulate(input).makespan;
}

TEST(HeadOfLineBlocking, no_queue_or_more_delegates_are_never_slower) {
  for (const Example& example : {worked_example(), large_example()})
    for (std::size_t link = 0; link + 1 < example.warmup.size(); ++link)
      for (const Duration occupancy : {10ms, 20ms, 30ms, 40ms})
        for (const Dispatch dispatch : {Dispatch::reactive, Dispatch::follow}) {
          SCOPED_TRACE(fmt::format("{} on link {}-{}", format(occupancy), link, link + 1));
          Duration slower = Duration::max();
          for (const Transport& transport :
               {Transport{1}, Transport{2}, Transport{{}, 1}, Transport{{}, 2}, Transport{{}, 4}, Transport{{}, 6}}) {
            const Duration makespan = over(example, link, occupancy, transport, dispatch);
            EXPECT_LE(makespan, slower) << transport.queue.value_or(0) << ", " << transport.lanes << " lanes";
            slower = makespan;
          }
        }
}

TEST(HeadOfLineBlocking, costs_a_stage_what_it_could_have_run_meanwhile) {
  const Example example = large_example();
  const auto follow = [&](Transport transport) { return over(example, 0, 30ms, transport, Dispatch::follow); };
  EXPECT_EQ(follow({1}), 993ms);
  EXPECT_EQ(follow({2}), 963ms);
  EXPECT_EQ(follow({{}, 1}), 963ms) << "the link itself is too slow";
  EXPECT_EQ(follow({{}, 2}), 719ms);
  EXPECT_EQ(follow({{}, 4}), 693ms) << "663, and one message more at the start: only a delay";
}

// 24 messages each way that everybody waits for, and k of them at a time.
TEST(Delegates, multiply_the_message_rate_of_a_slow_link) {
  PipelineProblem problem = uniform_problem(shape_of(2, 24), {1ms, 1ms, 1ms}, {{}, 50ms, {}});
  const Schedule schedule = natural(ScheduleKind::gpipe, problem.shape);
  const auto rate = [&](std::uint32_t lanes) {
    problem.forward_links[0].lanes = problem.backward_links[0].lanes = lanes;
    return slope([&](Duration occupancy) {
      problem.forward_links[0].occupancy = problem.backward_links[0].occupancy = occupancy;
      return replay(problem, schedule).makespan;
    });
  };
  EXPECT_EQ(rate(1), 48);
  EXPECT_EQ(rate(2), 24);
  EXPECT_EQ(rate(3), 16);
  EXPECT_EQ(rate(6), 8);
}

}  // namespace
}  // namespace stagecraft::pipelines
