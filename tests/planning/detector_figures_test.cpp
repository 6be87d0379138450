// How good the straggler detector is, in figures: what it finds in seeded traces with one fault each, and that it finds
// nothing where nothing is wrong. Operator noise of 3 % that is independent between micro-batches, outliers, spikes,
// clocks up to 50 ppm apart. The full counts are slow tests (DetectorAtLength).
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cmath>

#include "planning/detector.hpp"
#include "tests/planning/detector_traces.hpp"

namespace stagecraft::traces {
namespace {

constexpr double operator_ms = 9.5;  // mean of F and B
constexpr double lasts = 8;          // iterations

enum class Family : std::size_t { one_way, both_ways, bandwidth, stage };
constexpr const char* family_names[] = {"latency, one direction", "latency, both directions", "bandwidth", "stage"};

// One fault of 10 % (a third of them) to 200 % of an operator's time, beginning anywhere within an iteration.
struct OneFault {
  Parameters parameters;
  Family family = Family::one_way;
  double share = 0;  // size
};

OneFault random_fault(std::uint64_t seed) {
  Draws draws(seed, {77});
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(draws.uniform() * n); };
  static constexpr double sizes[] = {0.1, 0.1, 0.12, 0.2, 0.5, 2.0};
  OneFault made;
  made.share = sizes[below(6)];
  Parameters& p = made.parameters;
  p.seed = 100000 + seed;
  p.iterations = 34;
  Fault fault;
  fault.from = 16 + 4 * draws.uniform();
  fault.to = fault.from + lasts;
  const double draw = draws.uniform();
  made.family = draw < 0.44   ? Family::one_way
                : draw < 0.57 ? Family::both_ways
                : draw < 0.70 ? Family::bandwidth
                              : Family::stage;
  if (made.family == Family::stage) {
    fault.kind = Fault::Kind::stage;
    fault.stages = {below(p.stages)};
    fault.size = made.share;
  } else {
    const std::uint32_t link = below(p.stages - 1);
    fault.lanes = {{link, below(2)}};
    if (made.family == Family::both_ways) fault.lanes = {{link, 0}, {link, 1}};
    fault.size = made.share * operator_ms;
    if (made.family == Family::bandwidth) {
      fault.kind = Fault::Kind::bandwidth;
      fault.size = 1 + fault.size / (p.bytes / (p.gbytes_per_s * 1e6));
    }
  }
  p.faults = {fault};
  return made;
}

struct Outcome {
  std::size_t subjects = 0, in_time = 0, ended = 0;  // that were slow; found within 3 iterations; and their ends
  bool blames_others = false, kind_right = true;
  double worst_size = 0;  // error, of the size
  bool right() const { return in_time == subjects && !blames_others && kind_right; }
};

Outcome judge(const OneFault& made) {
  const Fault& fault = made.parameters.faults[0];
  const auto first = static_cast<std::uint32_t>(fault.from) + 1, last = static_cast<std::uint32_t>(fault.to) + 1;
  Trace trace(made.parameters);
  StragglerDetector detector(made.parameters.stages - 1, made.parameters.stages);
  Outcome outcome;
  outcome.subjects = std::max(fault.stages.size(), fault.lanes.size());
  const auto count = [&](Finding finding, Iteration at, double size) {
    if (finding == Finding::start) {
      outcome.in_time += at.value >= first && at.value <= first + 2;
      outcome.worst_size = std::max(outcome.worst_size, std::abs(size / made.share - 1));
    }
    if (finding == Finding::end) outcome.ended += at.value >= last && at.value <= last + 2;
  };
  for (std::uint32_t k = 0; k < made.parameters.iterations; ++k) {
    const StragglerFindings events = detector.step(trace.next());
    for (const StageFinding& e : events.stages) {
      if (e.stage && fault.stages == std::vector{*e.stage}) {
        count(e.finding, e.at, e.size);
      } else {
        outcome.blames_others = true;
      }
    }
    for (const LinkFinding& e : events.links) {
      if (e.finding == Finding::clock_step) continue;
      const auto named = [&](const auto& lane) {
        return e.direction && lane == std::pair{e.link, static_cast<std::size_t>(*e.direction)};
      };
      if (std::any_of(fault.lanes.begin(), fault.lanes.end(), named)) {
        count(e.finding, e.at, static_cast<double>(e.size.count()) / 1e6 / operator_ms);
        if (e.finding == Finding::start)
          outcome.kind_right &= (e.kind == DelayKind::occupancy) == (made.family == Family::bandwidth);
      } else {
        outcome.blames_others = true;
      }
    }
  }
  return outcome;
}

// The share of traces that are right, and a table of the rest.
double share_right(std::uint64_t from, std::uint64_t to, double shared = 0) {
  struct Row {
    std::size_t traces = 0, right = 0, blames = 0, late = 0, ends = 0, kinds = 0;
    std::vector<double> errors;
  };
  std::array<Row, 4> rows;
  std::size_t right = 0;
  for (std::uint64_t seed = from; seed < to; ++seed) {
    OneFault made = random_fault(seed);
    made.parameters.shared = shared;
    const Outcome outcome = judge(made);
    Row& row = rows[static_cast<std::size_t>(made.family)];
    ++row.traces;
    row.right += outcome.right();
    row.blames += outcome.blames_others;
    row.late += outcome.in_time < outcome.subjects;
    row.ends += outcome.ended == outcome.subjects;
    row.kinds += !outcome.kind_right;
    row.errors.push_back(outcome.worst_size);
    right += outcome.right();
    if (!outcome.right())
      fmt::print("seed {}: {} of {:.0f} %\n", seed, family_names[static_cast<std::size_t>(made.family)],
                 100 * made.share);
  }
  for (std::size_t f = 0; f < rows.size(); ++f) {
    Row& row = rows[f];
    if (row.traces == 0) continue;
    std::sort(row.errors.begin(), row.errors.end());
    fmt::print(
        "{}: {} of {} right ({} late, {} blame others, {} of the wrong kind), end found within 3 in {}, "
        "size wrong by {:.1f} % (p50), {:.1f} % (p99)\n",
        family_names[f], row.right, row.traces, row.late, row.blames, row.kinds, row.ends,
        100 * row.errors[row.errors.size() / 2], 100 * row.errors[row.errors.size() * 99 / 100]);
  }
  return static_cast<double>(right) / static_cast<double>(to - from);
}

// A healthy pipeline whose clocks drift, and step every so often.
Parameters healthy(std::uint64_t seed, std::uint32_t iterations) {
  Parameters p;
  p.seed = seed;
  p.iterations = iterations;
  for (std::uint32_t i = 0; i < 8; ++i) {
    Fault step;
    step.kind = Fault::Kind::clock_step;
    step.node = i;
    step.size = (i % 2 == 0 ? 1 : -1) * (1.0 + 3 * i);
    step.from = iterations * (i + 0.4) / 8;
    p.faults.push_back(step);
  }
  return p;
}

// Whatever is said but that a clock stepped.
std::size_t false_alarms(const Parameters& parameters) {
  Trace trace(parameters);
  StragglerDetector detector(parameters.stages - 1, parameters.stages);
  std::size_t alarms = 0, clocks = 0;
  for (std::uint32_t k = 0; k < parameters.iterations; ++k) {
    const StragglerFindings events = detector.step(trace.next());
    for (const StageFinding& e : events.stages) ++alarms, fmt::print("{}\n", to_text(e));
    for (const LinkFinding& e : events.links) {
      if (e.finding == Finding::clock_step) {
        ++clocks;
      } else {
        ++alarms, fmt::print("{}\n", to_text(e));
      }
    }
  }
  fmt::print("{} false alarms in {} iterations, {} reports of clocks that stepped\n", alarms, parameters.iterations,
             clocks);
  return alarms;
}

TEST(DetectorFigures, a_tenth_is_found_within_three_iterations_and_rightly_named) {
  EXPECT_EQ(share_right(0, 60), 1.0);
}

TEST(DetectorFigures, clocks_that_drift_and_step_raise_no_alarm) { EXPECT_EQ(false_alarms(healthy(1, 1500)), 0U); }

TEST(DetectorAtLength, a_tenth_is_found_within_three_iterations_and_rightly_named_in_a_thousand_traces) {
  EXPECT_GE(share_right(1000, 2000), 0.99);
}

TEST(DetectorAtLength, there_is_no_false_alarm_in_30000_iterations) { EXPECT_EQ(false_alarms(healthy(2, 30000)), 0U); }

TEST(DetectorAtLength, nor_with_noise_of_other_kinds) {
  Parameters shared = healthy(3, 6000);
  shared.shared = 0.3;
  shared.spread = 0.3;
  EXPECT_EQ(false_alarms(shared), 0U);
  Parameters jitter = healthy(4, 4000);
  jitter.jitter = 1;
  EXPECT_EQ(false_alarms(jitter), 0U);
  Parameters late = healthy(5, 4000);
  late.spikes = 0.05;
  late.spike = 5;
  EXPECT_EQ(false_alarms(late), 0U);
}

TEST(DetectorAtLength, noise_that_a_block_shares_delays_some_reports) { EXPECT_GE(share_right(2000, 2200, 0.3), 0.9); }

}  // namespace
}  // namespace stagecraft::traces
