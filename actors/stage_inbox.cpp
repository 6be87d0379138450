#include "actors/stage_inbox.hpp"

#include <algorithm>

#include "planning/bug.hpp"

namespace stagecraft {

bool StageInbox::add(const Tokens& x) {
  Slot& slot = slots_[{x.chunk, Direction::forward, x.batch->micro_batch}];
  STAGECRAFT_ASSERT(!slot.tokens_here, "tokens of micro-batch {} came twice to chunk {}", x.batch->micro_batch.value,
                    x.chunk.value);
  slot.tokens_here = true;
  slot.input.batch = x.batch;
  slot.input.due = std::max(slot.input.due, x.due);
  return x.chunk.value == 0 || slot.tensor_here;
}

bool StageInbox::add(const TensorMessage& x) {
  Slot& slot = slots_[{x.to, x.direction, x.micro_batch}];
  STAGECRAFT_ASSERT(!slot.tensor_here, "micro-batch {} came twice to chunk {}", x.micro_batch.value, x.to.value);
  slot.tensor_here = true;
  slot.input.tensor = x.value;
  slot.input.due = std::max(slot.input.due, x.due);
  if (x.direction == Direction::backward) return true;
  if (x.to == last_chunk_) return slot.tokens_here;
  auto batch = std::make_shared<TokenBatch>();
  batch->iteration = x.key.iteration;
  batch->micro_batch = x.micro_batch;
  batch->packing = x.packing;
  slot.input.batch = std::move(batch);
  return true;
}

Instant StageInbox::due_of(ChunkId chunk, Direction direction, MicroBatch micro_batch) const {
  const auto it = slots_.find({chunk, direction, micro_batch});
  return it == slots_.end() ? Instant{} : it->second.input.due;
}

OperatorInput StageInbox::take(ChunkId chunk, Direction direction, MicroBatch micro_batch) {
  auto node = slots_.extract({chunk, direction, micro_batch});
  STAGECRAFT_ASSERT(!node.empty(), "micro-batch {} of chunk {} has no input", micro_batch.value, chunk.value);
  OperatorInput& input = node.mapped().input;
  STAGECRAFT_ASSERT(direction == Direction::backward || input.batch->micro_batch == micro_batch,
                    "targets of micro-batch {} met micro-batch {}", input.batch->micro_batch.value, micro_batch.value);
  return std::move(input);
}

std::vector<HeldMessages::Message> HeldMessages::take(Key key) {
  std::vector<Message> now;
  std::vector<std::pair<Key, Message>> later;
  for (auto& [k, message] : held_) {
    if (k == key) {
      now.push_back(std::move(message));
    } else if (k > key) {
      later.emplace_back(k, std::move(message));
    }
  }
  held_ = std::move(later);
  return now;
}

}  // namespace stagecraft
