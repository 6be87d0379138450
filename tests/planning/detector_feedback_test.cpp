// The straggler detector beside a pipeline that reacts: the event simulator runs each iteration with noise, stages
// follow their plan, and a delay on one link moves what everyone does next. The stamps are those of clocks that are
// apart and drift.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "planning/detector.hpp"
#include "planning/link_server.hpp"
#include "tests/planning/detector_traces.hpp"
#include "tests/planning/follow_cases.hpp"

namespace stagecraft::pipelines {
namespace {

using traces::Draws;

constexpr OperatorTimes times{9ms, 10ms, 6ms};
constexpr Duration noise = 1ms;  // evenly 0 to 1 ms more: 3 % of F and B, 5 % of W

// A pipeline of equal stages, one iteration after the other.
class Pipeline {
 public:
  Pipeline(std::uint32_t stages, std::uint32_t micro_batches, double bytes_per_second, std::uint64_t seed)
      : seed_(seed) {
    problem_.shape = shape_of(stages, micro_batches);
    problem_.times.assign(stages, times);
    problem_.forward_links.assign(stages - 1, {500us, {}, {bytes_per_second}});
    problem_.backward_links = problem_.forward_links;
    problem_.boundary.assign(stages - 1, Bytes{64U << 20U});
    Draws draws(seed, {1});
    for (std::uint32_t s = 0; s < stages; ++s) {
      offsets_.push_back((2 * draws.uniform() - 1) * 5e9);
      drifts_.push_back((2 * draws.uniform() - 1) * 25e-6);
    }
    plan();
  }
  PipelineProblem& problem() { return problem_; }
  LinkCost& link(std::size_t link, Direction direction) {
    return (direction == Direction::forward ? problem_.forward_links : problem_.backward_links)[link];
  }
  /// For the operators and links as they are.
  void plan() { planned_ = plan_by_search(problem_); }

  IterationSamples next() {
    SimulationInput input = follow_input(planned_, problem_);
    input.disturbance.seed = keyed(seed_, ++iteration_);
    input.disturbance.operator_extra = noise;
    const SimulationResult result = simulate(input);
    EXPECT_FALSE(result.hung);
    makespan = result.makespan;
    const std::uint32_t stages = problem_.shape.stages;
    IterationSamples samples{{iteration_}, std::vector<LinkSamples>(stages - 1), std::vector<StageSamples>(stages)};
    std::vector<const TimedOperator*> in_order;
    for (const TimedOperator& timed : result.timeline) in_order.push_back(&timed);
    std::sort(in_order.begin(), in_order.end(), [](const auto* a, const auto* b) { return a->end < b->end; });
    std::vector<LinkServer> wires(std::size_t{2} * stages, LinkServer(1, {}));
    Draws draws(seed_, {2, iteration_});
    for (const TimedOperator* timed : in_order) {
      const std::uint32_t s = timed->place.stage.value;
      const OperatorKind kind = timed->op.kind;
      samples.stages[s].operators[kind == F ? 0 : kind == W ? 2 : 1].push_back({timed->end - timed->start});
      if (kind == F && s + 1 < stages) send(samples, *timed, s, Direction::forward, wires[2 * s], draws);
      if (kind == B && s > 0) send(samples, *timed, s - 1, Direction::backward, wires[2 * s + 1], draws);
    }
    begin_ += result.makespan;
    return samples;
  }
  Duration makespan{};  // of the last iteration

 private:
  void send(IterationSamples& samples, const TimedOperator& timed, std::size_t l, Direction direction, LinkServer& wire,
            Draws& draws) {
    const bool down = direction == Direction::forward;
    const LinkCost& cost = link(l, direction);
    const LinkCost& back = link(l, down ? Direction::backward : Direction::forward);
    const std::size_t from = down ? l : l + 1, to = down ? l + 1 : l;
    const auto jitter = [&] { return Duration(std::llround(draws.exponential(5e4))); };
    const Instant arrived = wire.serve(timed.end, service_time(cost, problem_.boundary[l])) + cost.latency + jitter();
    MessageStamps stamps;
    stamps.handed_over = clock(from, timed.end);
    stamps.arrived = clock(to, arrived);
    stamps.round_trip = clock(from, arrived + back.latency + jitter()) - stamps.handed_over;
    stamps.bytes = problem_.boundary[l];
    stamps.announcement = {clock(from, timed.start), clock(to, timed.start + cost.latency + jitter())};
    samples.links[l].messages[static_cast<std::size_t>(direction)].push_back(stamps);
  }
  Instant clock(std::size_t stage, Instant at) const {
    const auto now = static_cast<double>((begin_ + at).count());
    return Instant(std::llround(now + offsets_[stage] + drifts_[stage] * now));
  }

  std::uint64_t seed_;
  PipelineProblem problem_;
  Planned planned_;
  std::vector<double> offsets_, drifts_;
  Instant begin_{};  // of the iteration
  std::uint32_t iteration_ = 0;
};

struct Watch {
  std::vector<StageFinding> stages;
  std::vector<LinkFinding> links;
  Duration time{};  // of the mean iteration
};

Watch watch(Pipeline& pipeline, StragglerDetector& detector, std::uint32_t iterations) {
  Watch seen;
  for (std::uint32_t k = 0; k < iterations; ++k) {
    StragglerFindings events = detector.step(pipeline.next());
    seen.stages.insert(seen.stages.end(), events.stages.begin(), events.stages.end());
    for (const LinkFinding& e : events.links)
      if (e.finding != Finding::clock_step) seen.links.push_back(e);
    seen.time += pipeline.makespan / iterations;
  }
  return seen;
}

void expect_nothing(const Watch& seen) {
  for (const StageFinding& e : seen.stages) ADD_FAILURE() << to_text(e);
  for (const LinkFinding& e : seen.links) ADD_FAILURE() << to_text(e);
}

// One finding, of this direction of this link, and nothing else but sizes.
void expect_only(const Watch& seen, Finding finding, std::size_t link, Direction direction, std::uint32_t by) {
  for (const StageFinding& e : seen.stages) ADD_FAILURE() << to_text(e);
  std::size_t found = 0;
  for (const LinkFinding& e : seen.links) {
    EXPECT_TRUE(e.link == link && e.direction == direction) << to_text(e);
    if (e.finding == finding) {
      ++found;
      EXPECT_LE(e.at.value, by) << to_text(e);
    } else {
      EXPECT_EQ(e.finding, Finding::resize) << to_text(e);
    }
  }
  EXPECT_EQ(found, 1U);
}

constexpr std::uint32_t healthy = 30, slow = 8, recovered = 8;

// A delay appears, another plan is made for it, it goes away again. `moved`: how much longer the iteration takes before
// there is that plan.
void follow_a_delay(std::uint32_t stages, std::size_t link, Direction direction, Duration extra, double bandwidth,
                    Duration* moved) {
  SCOPED_TRACE(fmt::format("{} stages, link {}, direction {}, {} more", stages, link, static_cast<int>(direction),
                           format(extra)));
  Pipeline pipeline(stages, 3 * stages, bandwidth, 10 * stages + link);
  StragglerDetector detector(stages - 1, stages);
  expect_nothing(watch(pipeline, detector, healthy - slow));
  const Watch before = watch(pipeline, detector, slow);
  expect_nothing(before);
  pipeline.link(link, direction).latency += extra;
  const Watch during = watch(pipeline, detector, slow);
  expect_only(during, Finding::start, link, direction, healthy + 3);
  ASSERT_FALSE(during.links.empty());
  EXPECT_EQ(during.links[0].kind, DelayKind::latency);
  EXPECT_NEAR(static_cast<double>(during.links[0].size.count()), static_cast<double>(extra.count()),
              0.05 * static_cast<double>(extra.count()) + 5e4);
  *moved = during.time - before.time;
  pipeline.plan();
  detector.plan_changed();
  expect_nothing(watch(pipeline, detector, slow));
  pipeline.link(link, direction).latency -= extra;
  expect_only(watch(pipeline, detector, recovered), Finding::end, link, direction, healthy + 2 * slow + 3);
}

TEST(DetectorFeedback, a_delay_on_any_link_is_found_also_while_slack_hides_it) {
  for (const std::uint32_t stages : {4U, 8U}) {
    for (const Duration extra : {Duration(1ms), Duration(5ms), Duration(20ms)}) {
      Duration most{}, least = Duration::max();
      for (std::size_t link = 0; link + 1 < stages; ++link) {
        for (const Direction direction : {Direction::forward, Direction::backward}) {
          Duration moved{};
          follow_a_delay(stages, link, direction, extra, 50e9, &moved);
          most = std::max(most, moved);
          least = std::min(least, moved);
        }
      }
      // A delay never costs more than itself, and where slack hides it the iteration shows nothing of it; both but for
      // the noise of eight iterations.
      EXPECT_LE(most, extra + 4ms);
      EXPECT_LE(least, 2ms);
      fmt::print("{} stages, {} more one way on one link: the iteration takes {} to {} ms more\n", stages,
                 format(extra), static_cast<double>(least.count()) / 1e6, static_cast<double>(most.count()) / 1e6);
    }
  }
}

TEST(DetectorFeedback, a_link_whose_tensors_queue_is_not_blamed_for_the_delay_of_another) {
  for (const std::size_t link : {0U, 2U}) {
    Duration moved{};
    follow_a_delay(4, link, Direction::forward, 20ms, 8.5e9, &moved);  // 7.9 ms for a tensor
  }
}

TEST(DetectorFeedback, a_slow_stage_makes_its_neighbours_wait_and_is_named_alone) {
  Pipeline pipeline(8, 24, 50e9, 3);
  StragglerDetector detector(7, 8);
  expect_nothing(watch(pipeline, detector, healthy));
  pipeline.problem().times[3] = {13ms, 15ms, 9ms};
  const Watch seen = watch(pipeline, detector, slow);
  EXPECT_TRUE(seen.links.empty());
  ASSERT_FALSE(seen.stages.empty());
  EXPECT_LE(seen.stages[0].at.value, healthy + 3);
  for (const StageFinding& e : seen.stages) EXPECT_EQ(e.stage, 3U) << to_text(e);
}

}  // namespace
}  // namespace stagecraft::pipelines
