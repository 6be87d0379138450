#include "planning/link_machine.hpp"

#include "planning/bug.hpp"

namespace stagecraft {

LinkMachine::LinkMachine(std::uint32_t credits, MicroBatch first, std::uint32_t micro_batches)
    : credits_(credits), free_(credits), first_(first), had_(micro_batches, false) {
  STAGECRAFT_ASSERT(credits > 0, "a link without credits never sends");
}

std::vector<MicroBatch> LinkMachine::offer(MicroBatch micro_batch) {
  STAGECRAFT_ASSERT(micro_batch >= first_ && micro_batch.value - first_.value < had_.size(),
                    "micro-batch {} is not of this link's replica", micro_batch.value);
  STAGECRAFT_ASSERT(!had_[micro_batch.value - first_.value] && waiting_.insert(micro_batch).second,
                    "micro-batch {} was offered twice", micro_batch.value);
  return dispatch();
}

std::vector<MicroBatch> LinkMachine::credit() {
  STAGECRAFT_ASSERT(free_ < credits_, "a credit came back that was never given");
  ++free_;
  return dispatch();
}

std::vector<MicroBatch> LinkMachine::dispatch() {
  std::vector<MicroBatch> go;
  while (free_ > 0 && !waiting_.empty()) {
    const MicroBatch next = *waiting_.begin();
    const std::size_t index = next.value - first_.value;
    while (lowest_ < had_.size() && had_[lowest_]) ++lowest_;
    if (free_ == 1 && index != lowest_) break;
    waiting_.erase(waiting_.begin());
    had_[index] = true;
    --free_;
    go.push_back(next);
  }
  return go;
}

}  // namespace stagecraft
