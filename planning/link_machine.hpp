// The credits of one direction of a link, as a pure value. A credit is a receive slot of the far side.
//
// Tensors wait for slots, lowest micro-batch first; the last free slot goes only to the lowest micro-batch that has not
// had one (without that rule, reordered hand-overs deadlock). One owner; not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "planning/ids.hpp"
#include "planning/ready_set.hpp"

namespace stagecraft {

class LinkMachine {
 public:
  LinkMachine() = default;
  LinkMachine(std::uint32_t credits, MicroBatch first, std::uint32_t micro_batches);

  /// A tensor wants to cross; appends to `go` which waiting tensors go now.
  void offer(MicroBatch micro_batch, std::vector<MicroBatch>& go);
  /// A slot is free again.
  void credit(std::vector<MicroBatch>& go);
  std::vector<MicroBatch> offer(MicroBatch micro_batch) {
    std::vector<MicroBatch> go;
    return offer(micro_batch, go), go;
  }
  std::vector<MicroBatch> credit() {
    std::vector<MicroBatch> go;
    return credit(go), go;
  }

  std::uint32_t free() const { return free_; }
  std::uint32_t credits() const { return credits_; }
  std::size_t waiting() const { return waiting_; }
  /// Every slot is back and nothing waits.
  bool quiet() const { return free_ == credits_ && waiting_ == 0; }

 private:
  void dispatch(std::vector<MicroBatch>& go);

  std::uint32_t credits_ = 0, free_ = 0;
  MicroBatch first_;
  std::size_t lowest_ = 0;  // the lowest that has not had a slot, counted from the first
  std::vector<bool> offered_, had_;
  ReadySet queue_;  // what waits
  std::size_t waiting_ = 0;
};

}  // namespace stagecraft
