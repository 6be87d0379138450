// The credits of one direction of a link, as a pure value. A credit is a receive slot of the far side.
//
// Tensors wait for slots, lowest micro-batch first; the last free slot goes only to the lowest micro-batch that has not
// had one (without that rule, reordered hand-overs deadlock). One owner; not thread-safe.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "planning/ids.hpp"

namespace stagecraft {

class LinkMachine {
 public:
  LinkMachine() = default;
  LinkMachine(std::uint32_t credits, MicroBatch first, std::uint32_t micro_batches);

  /// A tensor wants to cross; the answer: which waiting tensors go now.
  std::vector<MicroBatch> offer(MicroBatch micro_batch);
  /// A slot is free again.
  std::vector<MicroBatch> credit();

  std::uint32_t free() const { return free_; }
  std::uint32_t credits() const { return credits_; }
  std::size_t waiting() const { return waiting_.size(); }
  /// Every slot is back and nothing waits.
  bool quiet() const { return free_ == credits_ && waiting_.empty(); }

 private:
  std::vector<MicroBatch> dispatch();

  std::uint32_t credits_ = 0, free_ = 0;
  MicroBatch first_;
  std::size_t lowest_ = 0;  // the lowest that has not had a slot, as an index into had_
  std::vector<bool> had_;
  std::set<MicroBatch> waiting_;
};

}  // namespace stagecraft
