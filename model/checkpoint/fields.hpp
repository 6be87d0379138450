// The fields of a checkpoint's identity by name, listed once: the manifest writes and reads them, resuming compares
// them. Values only; any thread.
#pragma once

#include "model/checkpoint/checkpoint.hpp"

namespace stagecraft {

/// Calls visit(name, field) for every field.
template <class Visit>
void each_field(ModelSpec& model, Visit&& visit) {
  visit("layers", model.layers);
  visit("width", model.width);
  visit("heads", model.heads);
  visit("kv_heads", model.kv_heads);
  visit("hidden", model.hidden);
  visit("context", model.context);
  visit("vocabulary", model.vocabulary);
  visit("tied_embeddings", model.tied_embeddings);
  visit("rope_theta", model.rope_theta);
  visit("norm_epsilon", model.norm_epsilon);
}

/// Without the model.
template <class Visit>
void each_field(JobIdentity& identity, Visit&& visit) {
  visit("emulated", identity.emulated);
  visit("seed", identity.seed);
  visit("micro_batches", identity.micro_batches);
  visit("logical_shards", identity.logical_shards);
  visit("micro_batch_tokens", identity.micro_batch_tokens);
  visit("corpus_sha256", identity.corpus_sha256);
  visit("kernels", identity.kernels);
}

template <class Visit>
void each_field(OptimizerSpec& optimizer, Visit&& visit) {
  visit("learning_rate", optimizer.learning_rate);
  visit("beta1", optimizer.beta1);
  visit("beta2", optimizer.beta2);
  visit("epsilon", optimizer.epsilon);
  visit("weight_decay", optimizer.weight_decay);
  visit("clip", optimizer.clip);
  visit("schedule", optimizer.schedule);
  visit("warmup_steps", optimizer.warmup_steps);
  visit("final_fraction", optimizer.final_fraction);
}

/// Without identity and optimizer.
template <class Visit>
void each_field(CheckpointInfo& info, Visit&& visit) {
  visit("job", info.job);
  visit("iteration", info.iteration);
  visit("steps", info.steps);
  visit("tokens", info.tokens);
  visit("layout", info.layout);
}

}  // namespace stagecraft
