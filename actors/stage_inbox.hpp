// What has reached a stage before it can be used: inputs of its chunks by micro-batch, and messages of a newer key.
// Values only; one owner.
#pragma once

#include <map>
#include <vector>

#include "actors/messages.hpp"

namespace stagecraft {

/// The inputs of one operator.
struct OperatorInput {
  Tensor tensor;
  std::shared_ptr<const TokenBatch> batch;  ///< forward only
  Instant due{};
};

/// Collects the parts of a forward's input: tokens in the first chunk, a tensor elsewhere, targets as well in the last.
class StageInbox {
 public:
  StageInbox() = default;
  explicit StageInbox(ChunkId last_chunk) : last_chunk_(last_chunk) {}

  /// True when the input of the forward is complete now.
  bool add(const Tokens& x);
  bool add(const TensorMessage& x);
  /// When the last part of an input that is here was due.
  Instant due_of(ChunkId chunk, Direction direction, MicroBatch micro_batch) const;
  OperatorInput take(ChunkId chunk, Direction direction, MicroBatch micro_batch);
  void clear() { slots_.clear(); }

 private:
  struct Slot {
    OperatorInput input;
    bool tensor_here = false, tokens_here = false;
  };
  using SlotId = std::tuple<ChunkId, Direction, MicroBatch>;

  ChunkId last_chunk_;
  std::map<SlotId, Slot> slots_;
};

/// Messages of keys that are not open yet, in order of arrival. Bounded: senders of tensors get no credits before the
/// stage has opened their key, and a micro-batch is announced once.
class HeldMessages {
 public:
  using Message = std::variant<Tokens, TensorMessage, Announcement, ParameterParts, AskState, AskVote>;
  void hold(Key key, Message message) { held_.emplace_back(key, std::move(message)); }
  /// Those of `key`; older ones are dropped, newer ones stay.
  std::vector<Message> take(Key key);

 private:
  std::vector<std::pair<Key, Message>> held_;
};

}  // namespace stagecraft
