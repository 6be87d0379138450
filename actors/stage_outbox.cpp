#include "actors/stage_outbox.hpp"

#include "config/load_topology.hpp"

namespace stagecraft {

StageOutbox::StageOutbox(const Job& job, Place place) : last_(job.last_chunk()) {
  const auto note = [&](ChunkId chunk, ChunkId to, Direction direction) {
    const StageId far = job.stage_of(to);
    if (far == place.stage) return;  // within the device
    if (route_spec(job.topology, place.stage, far, direction).policy != RoutePolicy::delegated)
      held_up_.insert({chunk, direction});
  };
  for (const ChunkId chunk : job.plan_of(place).chunks) {
    if (chunk != last_) note(chunk, {chunk.value + 1}, Direction::forward);
    if (chunk.value > 0) note(chunk, {chunk.value - 1}, Direction::backward);
  }
}

std::optional<StageOutbox::Way> StageOutbox::way_of(const Operator& op) const {
  if (op.kind == OperatorKind::backward_weight) return std::nullopt;
  const bool forward = op.kind == OperatorKind::forward;
  if (forward ? op.chunk == last_ : op.chunk.value == 0) return std::nullopt;
  if (forward) return Way{{op.chunk.value + 1}, Direction::forward};
  return Way{{op.chunk.value - 1}, Direction::backward};
}

std::string StageOutbox::explain() const {
  return "its device stands still until the output of " + to_text(waiting_->first) + " finds a place on the link";
}

Operator StageOutbox::go_on(Instant now) {
  const Operator op = waiting_->first;
  const Direction direction = op.kind == OperatorKind::forward ? Direction::forward : Direction::backward;
  outputs_[{op.chunk, direction}].at(op.micro_batch).due = now;
  waiting_.reset();
  return op;
}

}  // namespace stagecraft
