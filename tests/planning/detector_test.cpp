// What the straggler detector does besides finding one fault: thresholds that change while it runs, short iterations,
// queues of a link's own making, what gets faster, what changes faster than iterations, what is forgotten.
#include "planning/detector.hpp"

#include <gtest/gtest.h>

#include "tests/planning/detector_traces.hpp"

namespace stagecraft::traces {
namespace {

using std::chrono::milliseconds;

Parameters calm(std::uint32_t iterations = 60) {
  Parameters p;
  p.seed = 4711;
  p.iterations = iterations;
  return p;
}

Fault slow_stage(std::uint32_t stage, double more, double from, double to = 1e9) {
  Fault fault;
  fault.kind = Fault::Kind::stage;
  fault.stages = {stage};
  fault.size = more;
  fault.from = from;
  fault.to = to;
  return fault;
}

Fault slow_link(std::uint32_t link, std::size_t direction, double ms, double from, double to = 1e9) {
  Fault fault;
  fault.lanes = {{link, direction}};
  fault.size = ms;
  fault.from = from;
  fault.to = to;
  return fault;
}

StragglerDetector detector_of(const Parameters& p, const DetectorSettings& settings = {}) {
  return {p.stages - 1, p.stages, settings};
}

// The next iterations of a trace, and all that is found in them but clocks.
StragglerFindings watch(StragglerDetector& detector, Trace& trace, std::uint32_t iterations) {
  StragglerFindings all;
  for (std::uint32_t k = 0; k < iterations; ++k) {
    const StragglerFindings events = detector.step(trace.next());
    all.stages.insert(all.stages.end(), events.stages.begin(), events.stages.end());
    for (const LinkFinding& e : events.links)
      if (e.finding != Finding::clock_step) all.links.push_back(e);
  }
  return all;
}
StragglerFindings watch(const Parameters& p) {
  Trace trace(p);
  StragglerDetector detector = detector_of(p);
  return watch(detector, trace, p.iterations);
}

TEST(DetectorSettings, thresholds_that_contradict_each_other_are_told) {
  DetectorSettings settings;
  EXPECT_FALSE(complaint(settings));
  settings.alarm = 0.6;
  EXPECT_EQ(complaint(settings), "alarm 0.6 is not above clip 1.1 - slack 0.5: one iteration alone would alarm");
  settings = {};
  settings.smallest = 0;
  EXPECT_TRUE(complaint(settings));
  settings = {};
  settings.frequent = 0.01;
  EXPECT_TRUE(complaint(settings));
  EXPECT_THROW(StragglerDetector(1, 2, settings), std::logic_error);
}

TEST(Detector, finer_thresholds_take_effect_while_it_runs) {
  Parameters p = calm();
  p.faults = {slow_stage(3, 0.035, 20)};
  Trace trace(p);
  DetectorSettings settings;
  settings.refinement = settings.calibration;  // else it would learn a part of the change
  StragglerDetector detector = detector_of(p, settings);
  EXPECT_TRUE(watch(detector, trace, 40).stages.empty()) << "less than half of what matters";
  DetectorSettings finer = detector.settings();
  finer.smallest = 0.02;
  finer.guard = 2.5;
  detector.set(finer);
  const StragglerFindings found = watch(detector, trace, 5);
  ASSERT_FALSE(found.stages.empty());
  EXPECT_EQ(found.stages[0].stage, 3U);
  EXPECT_NEAR(found.stages[0].size, 0.035, 0.01);
  EXPECT_TRUE(found.links.empty());
}

TEST(Detector, iterations_of_few_micro_batches_are_taken_together) {
  Parameters p = calm(120);
  p.micro_batches = 3;  // three of them are a block
  p.faults = {slow_link(2, 1, 5, 60.2, 90), slow_stage(1, 0.5, 60.2, 90)};
  const StragglerFindings found = watch(p);
  ASSERT_EQ(found.links.size(), 2U);
  EXPECT_EQ(found.links[0].direction, Direction::backward);
  EXPECT_NEAR(static_cast<double>(found.links[0].size.count()), 5e6, 5e5);
  EXPECT_GE(found.links[0].at.value, 61U);
  EXPECT_LE(found.links[0].at.value, 61U + 9);
  EXPECT_EQ(found.links[1].finding, Finding::end);
  ASSERT_GE(found.stages.size(), 2U);
  EXPECT_EQ(found.stages.front().stage, 1U);
  EXPECT_EQ(found.stages.back().finding, Finding::end);
}

TEST(Detector, tensors_that_come_faster_and_queue_do_not_make_a_link_slow) {
  Parameters p = calm(30);
  p.gbytes_per_s = 9;  // 7.5 ms for one, less than the 9 ms from one to the next
  StragglerDetector detector = detector_of(p);
  Trace spaced(p);
  EXPECT_TRUE(watch(detector, spaced, 30).links.empty());
  p.operators = {6, 10, 6};  // the warm-up's forwards leave 6 ms apart, and wait for the wire
  p.iterations = 60;
  Trace bunched(p);
  for (int k = 0; k < 30; ++k) bunched.next();
  detector.plan_changed();
  for (const LinkFinding& e : watch(detector, bunched, 30).links) ADD_FAILURE() << to_text(e);
}

TEST(Detector, a_stage_with_other_layers_is_as_healthy_as_the_cost_model_expects) {
  Parameters p = calm(60);
  Trace trace(p);
  StragglerDetector detector = detector_of(p);
  const auto steps = [&](std::int64_t layers, std::uint32_t iterations) {
    StragglerFindings all;
    for (std::uint32_t k = 0; k < iterations; ++k) {
      IterationSamples samples = trace.next();
      for (auto& operators : samples.stages[5].operators)
        for (OperatorSample& o : operators) o = {o.took * layers / 4, milliseconds(2 * layers)};
      const StragglerFindings events = detector.step(samples);
      all.stages.insert(all.stages.end(), events.stages.begin(), events.stages.end());
    }
    return all;
  };
  EXPECT_TRUE(steps(4, 30).stages.empty());
  EXPECT_TRUE(steps(6, 30).stages.empty()) << "half as long again, with half as many layers again";
}

TEST(Detector, what_was_slow_from_the_beginning_is_found_when_it_gets_faster) {
  Parameters p = calm(40);
  p.faults = {slow_stage(2, 0.5, 0, 25)};
  const StragglerFindings found = watch(p);
  ASSERT_FALSE(found.stages.empty());
  for (const StageFinding& e : found.stages) {
    EXPECT_EQ(e.finding, Finding::faster);
    EXPECT_EQ(e.stage, 2U);
    EXPECT_NEAR(e.size, 1.0 / 3, 0.03);
  }
  EXPECT_TRUE(found.links.empty());
}

TEST(Detector, bursts_shorter_than_an_iteration_are_volatile_and_the_direction_is_named) {
  for (const std::size_t direction : {0U, 1U}) {
    Parameters p = calm(110);
    Fault fault = slow_link(4, direction, 20, 25.5, 70);
    fault.shape.kind = FaultShape::Kind::burst;
    fault.shape.on = 150;
    fault.shape.off = 400;
    p.faults = {fault};
    const StragglerFindings found = watch(p);
    ASSERT_FALSE(found.links.empty());
    bool is_volatile = false;
    for (const LinkFinding& e : found.links) {
      EXPECT_EQ(e.link, 4U) << to_text(e);
      EXPECT_EQ(e.direction, static_cast<Direction>(direction)) << to_text(e);
      if (e.finding != Finding::turned_volatile) continue;
      is_volatile = true;
      EXPECT_LE(e.at.value, 45U);
    }
    EXPECT_TRUE(is_volatile);
    EXPECT_EQ(found.links.back().finding, Finding::turned_steady);
    EXPECT_EQ(found.links.back().size, Duration{});
    EXPECT_TRUE(found.stages.empty());
  }
}

TEST(Detector, a_stage_whose_operators_stall_now_and_then_is_volatile) {
  Parameters p = calm(110);
  Fault fault = slow_stage(6, 1, 25.5, 70);
  fault.shape.kind = FaultShape::Kind::burst;
  fault.shape.on = 120;
  fault.shape.off = 480;
  p.faults = {fault};
  const StragglerFindings found = watch(p);
  ASSERT_FALSE(found.stages.empty());
  std::size_t is_volatile = 0;
  for (const StageFinding& e : found.stages) {
    EXPECT_EQ(e.stage, 6U) << to_text(e);
    is_volatile += e.finding == Finding::turned_volatile;
    if (e.finding == Finding::turned_volatile) {
      EXPECT_NEAR(e.spread.p99, 1, 0.2);
    }
  }
  EXPECT_EQ(is_volatile, 1U);
  EXPECT_TRUE(found.links.empty());
}

TEST(Detector, acknowledgements_that_come_back_another_way_change_nothing) {
  Parameters p = calm();
  p.ack_over_link = false;
  p.faults = {slow_link(0, 0, 3, 20.5, 40), slow_link(0, 1, 6, 25.5, 40)};
  const StragglerFindings found = watch(p);
  ASSERT_EQ(found.links.size(), 4U);
  EXPECT_EQ(found.links[0].direction, Direction::forward);
  EXPECT_NEAR(static_cast<double>(found.links[0].size.count()), 3e6, 3e5);
  EXPECT_EQ(found.links[1].direction, Direction::backward);
  EXPECT_NEAR(static_cast<double>(found.links[1].size.count()), 6e6, 6e5);
  EXPECT_EQ(found.links[2].finding, Finding::end);
  EXPECT_EQ(found.links[3].finding, Finding::end);
}

TEST(Detector, without_announcements_the_kind_stays_open) {
  Parameters p = calm(40);
  p.announcements = false;
  p.faults = {slow_link(1, 0, 4, 20)};
  const StragglerFindings found = watch(p);
  ASSERT_EQ(found.links.size(), 1U);
  EXPECT_EQ(found.links[0].kind, DelayKind::unknown);
  EXPECT_EQ(to_text(found.links[0]).substr(0, 24), "link 1 forward start: de");
}

TEST(Detector, half_the_stages_are_not_all_of_them) {
  Parameters p = calm(40);
  p.stages = 4;
  p.faults = {slow_stage(0, 0.4, 20), slow_stage(3, 0.4, 20)};
  for (const StageFinding& e : watch(p).stages) EXPECT_TRUE(e.stage == 0U || e.stage == 3U) << to_text(e);
}

TEST(Detector, what_is_forgotten_is_learned_again) {
  Parameters p = calm(80);
  p.faults = {slow_stage(3, 0.5, 20), slow_link(3, 0, 8, 20)};
  Trace trace(p);
  StragglerDetector detector = detector_of(p);
  watch(detector, trace, 20);
  detector.forget_stage(3);
  detector.forget_link(3);
  const StragglerFindings found = watch(detector, trace, 60);
  EXPECT_TRUE(found.stages.empty()) << "that is healthy now";
  EXPECT_TRUE(found.links.empty());
}

}  // namespace
}  // namespace stagecraft::traces
