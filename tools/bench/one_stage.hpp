// A whole training step without actors: one stage that holds the model, its operators called by hand. What PyTorch is
// compared with, for parity and for speed.
//
// Thread promise: one thread; everything runs on the caller's.
#pragma once

#include <cmath>
#include <memory>
#include <vector>

#include "model/optimizer.hpp"
#include "model/stage_model.hpp"

namespace stagecraft::bench {

using Batches = std::vector<std::shared_ptr<const TokenBatch>>;

/// What one iteration came to.
struct StepOutcome {
  double loss_sum = 0;       ///< over all tokens
  std::uint64_t tokens = 0;  ///< what losses and gradients are divided by
  double gradient_norm = 0;  ///< of the mean loss, before clipping
};

class OneStage {
 public:
  OneStage(std::shared_ptr<const Arithmetic> arithmetic, std::uint32_t micro_batches, std::uint32_t shards,
           OptimizerSpec optimizer, std::uint64_t total_steps)
      : arithmetic_(std::move(arithmetic)),
        optimizer_(optimizer),
        total_steps_(total_steps),
        model_(arithmetic_,
               {.place = {},
                .replicas = 1,
                .micro_batches = micro_batches,
                .shards = shards,
                .chunks = {{ChunkId{0}, {0, arithmetic_->units()}}}},
               arena_) {
    model_.initialise();
  }

  /// F, B and W of each micro-batch, then norm, clipping and AdamW. `batches` has one entry per micro-batch.
  StepOutcome iterate(const Batches& batches) {
    model_.begin(Iteration{static_cast<std::uint32_t>(++steps_)});
    for (std::uint32_t m = 0; m < batches.size(); ++m) {
      model_.forward(ChunkId{0}, {}, batches[m]);
      model_.backward_input(ChunkId{0}, MicroBatch{m}, {});
      model_.backward_weight(ChunkId{0}, MicroBatch{m});
    }
    return step();
  }

  /// Keeps the gradients of the next iterations, of the sum over tokens, by group. A tied table has its two already
  /// added.
  void keep_gradients(bool keep) { keep_gradients_ = keep; }
  const std::vector<Tensor>& gradients() const { return gradients_; }
  const Tensor& parameters(GroupId group) const { return model_.parameters(group); }
  const Arithmetic& arithmetic() const { return *arithmetic_; }

 private:
  StepOutcome step() {
    const ExactSum squares = reduce();
    StepOutcome outcome;
    outcome.loss_sum = model_.loss().loss.value();
    outcome.tokens = model_.loss().tokens;
    outcome.gradient_norm = std::sqrt(squares.value()) / static_cast<double>(outcome.tokens);
    const double clip = clip_factor(optimizer_, squares, outcome.tokens);
    model_.step(step_factors(optimizer_, steps_, total_steps_, clip, outcome.tokens));
    model_.drop_prepared();
    return outcome;
  }

  ExactSum reduce() {
    ExactSum squares;
    gradients_.assign(arithmetic_->groups(), {});
    for (const GroupId g : model_.groups()) {
      const std::vector<Segment> segments = model_.take_segments(g);
      squares.add(model_.reduce(g, segments));
      if (keep_gradients_) gradients_[g.value] = segments.front().value;  // one replica: one tree, one segment
    }
    if (!arithmetic_->tied()) return squares;
    if (keep_gradients_) add_tied();
    squares.add(model_.tie({}));
    return squares;
  }

  void add_tied() {
    Tensor& embedding = gradients_[arithmetic_->embedding_group().value];
    const Tensor& head = gradients_[arithmetic_->head_group().value];
    Tensor sum(*arena_, embedding.size());
    arithmetic_->add(embedding.span(), head.span(), sum.span());
    embedding = sum;
  }

  std::shared_ptr<const Arithmetic> arithmetic_;
  OptimizerSpec optimizer_;
  std::uint64_t total_steps_, steps_ = 0;
  std::shared_ptr<Arena> arena_ = Arena::make("one stage", Bytes{});
  StageModel model_;
  bool keep_gradients_ = false;
  std::vector<Tensor> gradients_;
};

}  // namespace stagecraft::bench
