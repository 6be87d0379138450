// What a stage has made and not handed over yet, and with which output its device stands still because the link that it
// goes over holds it up. A value; one owner: the stage.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "actors/job.hpp"
#include "actors/messages.hpp"

namespace stagecraft {

class StageOutbox {
 public:
  struct Way {
    ChunkId to;
    Direction direction = Direction::forward;
  };

  StageOutbox() = default;
  StageOutbox(const Job& job, Place place);

  /// Where the output of an operator goes; none: it stays.
  std::optional<Way> way_of(const Operator& op) const;
  /// True when its device may have to wait for a place on the link.
  bool holds_up(const Operator& op, const Way& way) const { return held_up_.contains({op.chunk, way.direction}); }

  void keep(const Operator& op, TensorMessage output) {
    outputs_[{op.chunk, output.direction}][op.micro_batch] = std::move(output);
  }
  TensorMessage take(ChunkId chunk, Direction direction, MicroBatch micro_batch) {
    return std::move(outputs_[{chunk, direction}].extract(micro_batch).mapped());
  }

  // -- the operator with whose output the device waits
  void wait_with(const Operator& op, Instant ready) { waiting_ = {op, ready}; }
  const std::optional<std::pair<Operator, Instant>>& waiting() const { return waiting_; }
  std::string explain() const;  ///< what it waits for
  /// There is a place now; the operator.
  Operator go_on(Instant now);

  void clear() {
    outputs_.clear();
    waiting_.reset();
  }

 private:
  ChunkId last_;
  std::set<std::pair<ChunkId, Direction>> held_up_;  // outputs that go over a link that holds up its device
  std::map<std::pair<ChunkId, Direction>, std::map<MicroBatch, TensorMessage>> outputs_;
  std::optional<std::pair<Operator, Instant>> waiting_;
};

}  // namespace stagecraft
