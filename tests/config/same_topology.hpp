// Compares two topologies member by member.
#pragma once

#include <gtest/gtest.h>

#include "config/topology.hpp"

namespace stagecraft {

inline void expect_same(const LinkCost& a, const LinkCost& b) {
  EXPECT_EQ(a.latency, b.latency);
  EXPECT_EQ(a.occupancy, b.occupancy);
  EXPECT_EQ(a.bandwidth, b.bandwidth);
}

inline bool same_device(const DeviceSpec& a, const DeviceSpec& b) {
  const CostTable &x = a.costs, &y = b.costs;
  return a.kind == b.kind && a.memory == b.memory && x.per_layer == y.per_layer && x.forward == y.forward &&
         x.backward_input == y.backward_input && x.backward_weight == y.backward_weight && x.reduce == y.reduce &&
         x.step == y.step && x.activation == y.activation && x.weight_activation == y.weight_activation &&
         x.boundary == y.boundary && x.parameters == y.parameters;
}

inline void expect_same(const ModelSpec& a, const ModelSpec& b) {
  EXPECT_EQ(a.layers, b.layers);
  EXPECT_EQ(a.width, b.width);
  EXPECT_EQ(a.heads, b.heads);
  EXPECT_EQ(a.kv_heads, b.kv_heads);
  EXPECT_EQ(a.hidden, b.hidden);
  EXPECT_EQ(a.context, b.context);
  EXPECT_EQ(a.vocabulary, b.vocabulary);
  EXPECT_EQ(a.tied_embeddings, b.tied_embeddings);
  EXPECT_EQ(a.rope_theta, b.rope_theta);
  EXPECT_EQ(a.norm_epsilon, b.norm_epsilon);
}

inline void expect_same(const DataSpec& a, const DataSpec& b) {
  EXPECT_EQ(a.micro_batch_tokens, b.micro_batch_tokens);
  ASSERT_EQ(a.sources.size(), b.sources.size());
  for (std::size_t i = 0; i < a.sources.size(); ++i) {
    EXPECT_EQ(a.sources[i].files, b.sources[i].files);
    EXPECT_EQ(a.sources[i].exclude, b.sources[i].exclude);
    EXPECT_EQ(a.sources[i].split, b.sources[i].split);
  }
}

inline void expect_same(const TrainingSpec& a, const TrainingSpec& b) {
  EXPECT_EQ(a.micro_batches, b.micro_batches);
  EXPECT_EQ(a.logical_shards, b.logical_shards);
  EXPECT_EQ(a.kernels, b.kernels);
  const OptimizerSpec &x = a.optimizer, &y = b.optimizer;
  EXPECT_EQ(x.learning_rate, y.learning_rate);
  EXPECT_EQ(x.beta1, y.beta1);
  EXPECT_EQ(x.beta2, y.beta2);
  EXPECT_EQ(x.epsilon, y.epsilon);
  EXPECT_EQ(x.weight_decay, y.weight_decay);
  EXPECT_EQ(x.clip, y.clip);
  EXPECT_EQ(x.schedule, y.schedule);
  EXPECT_EQ(x.warmup_steps, y.warmup_steps);
  EXPECT_EQ(x.final_fraction, y.final_fraction);
}

inline void expect_same(const PipelineSpec& a, const PipelineSpec& b) {
  EXPECT_EQ(a.stages, b.stages);
  EXPECT_EQ(a.chunks, b.chunks);
  EXPECT_EQ(a.replicas, b.replicas);
  EXPECT_EQ(a.layout, b.layout);
  EXPECT_EQ(a.schedule, b.schedule);
  EXPECT_EQ(a.dispatch, b.dispatch);
  EXPECT_EQ(a.warmup, b.warmup);
  EXPECT_EQ(a.activations.kind, b.activations.kind);
  EXPECT_EQ(a.activations.value, b.activations.value);
  EXPECT_EQ(a.pending_weights.kind, b.pending_weights.kind);
  EXPECT_EQ(a.pending_weights.value, b.pending_weights.value);
}

inline void expect_same(const std::vector<NodeSpec>& a, const std::vector<NodeSpec>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].name, b[i].name);
    EXPECT_EQ(a[i].listen, b[i].listen);
    ASSERT_EQ(a[i].devices.size(), b[i].devices.size());
    for (std::size_t d = 0; d < a[i].devices.size(); ++d) {
      EXPECT_TRUE(same_device(a[i].devices[d], b[i].devices[d])) << "node " << i << ", device " << d;
    }
  }
}

inline void expect_same(const LinksSpec& a, const LinksSpec& b) {
  EXPECT_EQ(a.credits, b.credits);
  ASSERT_EQ(a.links.size(), b.links.size());
  for (std::size_t i = 0; i < a.links.size(); ++i) {
    EXPECT_EQ(a.links[i].from, b.links[i].from);
    EXPECT_EQ(a.links[i].to, b.links[i].to);
    EXPECT_EQ(a.links[i].direction, b.links[i].direction);
    expect_same(a.links[i].cost, b.links[i].cost);
    EXPECT_TRUE(a.links[i].route == b.links[i].route) << i;
  }
}

inline void expect_same(const Topology& a, const Topology& b) {
  EXPECT_EQ(a.file, b.file);
  EXPECT_EQ(a.job.name, b.job.name);
  EXPECT_EQ(a.job.seed, b.job.seed);
  EXPECT_EQ(a.job.iterations, b.job.iterations);
  expect_same(a.model, b.model);
  ASSERT_EQ(a.data.has_value(), b.data.has_value());
  if (a.data) expect_same(*a.data, *b.data);
  expect_same(a.training, b.training);
  expect_same(a.pipeline, b.pipeline);
  expect_same(a.nodes, b.nodes);
  expect_same(a.links, b.links);
  EXPECT_EQ(a.timeouts.operation, b.timeouts.operation);
  EXPECT_EQ(a.timeouts.iteration, b.timeouts.iteration);
  EXPECT_EQ(a.timeouts.stage, b.timeouts.stage);
  EXPECT_EQ(a.timeouts.node, b.timeouts.node);
  EXPECT_EQ(a.recovery.twins, b.recovery.twins);
  EXPECT_EQ(a.recovery.attempts, b.recovery.attempts);
  EXPECT_EQ(a.checkpoint.dir, b.checkpoint.dir);
  EXPECT_EQ(a.checkpoint.every, b.checkpoint.every);
  EXPECT_EQ(a.checkpoint.keep, b.checkpoint.keep);
  EXPECT_EQ(a.output.dir, b.output.dir);
}

}  // namespace stagecraft
