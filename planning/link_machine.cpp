#include "planning/link_machine.hpp"

#include "planning/bug.hpp"

namespace stagecraft {

LinkMachine::LinkMachine(std::uint32_t credits, MicroBatch first, std::uint32_t micro_batches)
    : credits_(credits),
      free_(credits),
      first_(first),
      offered_(micro_batches, false),
      had_(micro_batches, false),
      queue_(micro_batches) {
  STAGECRAFT_ASSERT(credits > 0, "a link without credits never sends");
}

void LinkMachine::offer(MicroBatch micro_batch, std::vector<MicroBatch>& go) {
  const std::size_t index = micro_batch.value - first_.value;
  STAGECRAFT_ASSERT(micro_batch >= first_ && index < had_.size(), "micro-batch {} is not of this link's replica",
                    micro_batch.value);
  STAGECRAFT_ASSERT(!offered_[index], "micro-batch {} was offered twice", micro_batch.value);
  offered_[index] = true;
  if (waiting_ == 0 && free_ > 1) {  // nobody has to wait for anybody
    had_[index] = true;
    --free_;
    go.push_back(micro_batch);
    return;
  }
  queue_.insert(index);
  ++waiting_;
  dispatch(go);
}

void LinkMachine::credit(std::vector<MicroBatch>& go) {
  STAGECRAFT_ASSERT(free_ < credits_, "a credit came back that was never given");
  ++free_;
  dispatch(go);
}

void LinkMachine::dispatch(std::vector<MicroBatch>& go) {
  while (free_ > 0 && waiting_ > 0) {
    const std::size_t index = *queue_.lowest();
    while (lowest_ < had_.size() && had_[lowest_]) ++lowest_;
    if (free_ == 1 && index != lowest_) break;
    queue_.erase(index);
    --waiting_;
    had_[index] = true;
    --free_;
    go.push_back(MicroBatch{first_.value + static_cast<std::uint32_t>(index)});
  }
}

}  // namespace stagecraft
