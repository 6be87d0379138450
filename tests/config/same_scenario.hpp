// Compares two scenarios member by member, but for where each value stood in its file.
#pragma once

#include <gtest/gtest.h>

#include "config/scenario.hpp"

namespace stagecraft {

inline void expect_same(const FaultTarget& a, const FaultTarget& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.stage, b.stage);
  EXPECT_EQ(a.other, b.other);
  EXPECT_EQ(a.direction, b.direction);
  EXPECT_EQ(a.replica, b.replica);
  EXPECT_EQ(a.node_names, b.node_names);
}

inline void expect_same(const Trigger& a, const Trigger& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.iteration, b.iteration);
  EXPECT_EQ(a.time, b.time);
  EXPECT_EQ(a.at_most, b.at_most);
  EXPECT_EQ(a.event.event, b.event.event);
  EXPECT_EQ(a.event.stage, b.event.stage);
  EXPECT_EQ(a.event.replica, b.event.replica);
  EXPECT_EQ(a.event.micro_batch, b.event.micro_batch);
  EXPECT_EQ(a.event.iteration, b.event.iteration);
}

inline void expect_same(const FaultSpec& a, const FaultSpec& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.kind, b.kind);
  expect_same(a.on, b.on);
  expect_same(a.trigger, b.trigger);
  EXPECT_EQ(a.iterations, b.iterations);
  EXPECT_EQ(a.time, b.time);
  EXPECT_EQ(a.mean, b.mean);
  EXPECT_EQ(a.constant, b.constant);
  EXPECT_EQ(a.factor, b.factor);
  EXPECT_EQ(a.probability, b.probability);
  EXPECT_EQ(a.offset, b.offset);
  EXPECT_EQ(a.operation, b.operation);
}

inline void expect_same(const Expectation& a, const Expectation& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.fault, b.fault);
  EXPECT_EQ(a.after, b.after);
  EXPECT_EQ(a.settle, b.settle);
  EXPECT_EQ(a.ratio, b.ratio);
  EXPECT_EQ(a.within, b.within);
  EXPECT_EQ(a.tolerance, b.tolerance);
  EXPECT_EQ(a.never, b.never);
  EXPECT_EQ(a.at_least, b.at_least);
}

inline void expect_same(const Scenario& a, const Scenario& b) {
  EXPECT_EQ(a.file, b.file);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.shows, b.shows);
  EXPECT_EQ(a.topology, b.topology);
  EXPECT_EQ(a.set, b.set);
  EXPECT_EQ(a.world, b.world);
  EXPECT_EQ(a.first_seed, b.first_seed);
  EXPECT_EQ(a.last_seed, b.last_seed);
  EXPECT_EQ(a.deadline, b.deadline);
  ASSERT_EQ(a.faults.size(), b.faults.size());
  for (std::size_t i = 0; i < a.faults.size(); ++i) expect_same(a.faults[i], b.faults[i]);
  ASSERT_EQ(a.moves.size(), b.moves.size());
  for (std::size_t i = 0; i < a.moves.size(); ++i) {
    EXPECT_EQ(a.moves[i].iteration, b.moves[i].iteration);
    EXPECT_EQ(a.moves[i].layers, b.moves[i].layers);
    EXPECT_EQ(a.moves[i].to, b.moves[i].to);
    EXPECT_EQ(a.moves[i].layout, b.moves[i].layout);
  }
  ASSERT_EQ(a.expect.size(), b.expect.size());
  for (std::size_t i = 0; i < a.expect.size(); ++i) expect_same(a.expect[i], b.expect[i]);
  ASSERT_EQ(a.calm.has_value(), b.calm.has_value());
  if (!a.calm) return;
  EXPECT_EQ(a.calm->from, b.calm->from);
  EXPECT_EQ(a.calm->within, b.calm->within);
}

}  // namespace stagecraft
