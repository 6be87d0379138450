#include "planning/memory_ledger.hpp"

#include <algorithm>

namespace stagecraft {

MemoryLedger::MemoryLedger(const PipelineShape& shape, const std::vector<ChunkBytes>& bytes,
                           const std::vector<GradientBuffers>& buffers)
    : shape_(shape),
      bytes_(bytes),
      buffers_(buffers),
      used_(shape.stages, 0),
      gradients_(shape.total_chunks(), 0),
      peaks_(shape.stages) {}

void MemoryLedger::note(ChunkId chunk, std::uint64_t bytes) {
  Bytes& peak = peaks_[shape_.stage_of(chunk).value];
  peak = std::max(peak, Bytes{bytes});
}

void MemoryLedger::arrived(ChunkId to, Direction direction) {
  const bool forward = direction == Direction::forward;
  if (forward && to.value == 0) return;
  const Bytes size = crossing(direction, to);
  used(ChunkId{forward ? to.value - 1 : to.value + 1}) -= size.value;
  charge(to, size);
}

// What an operator adds while it runs, and how full the stage is at the worst moment of it.
void MemoryLedger::started(const Operator& op) {
  const ChunkBytes& b = bytes_[op.chunk.value];
  if (op.kind == OperatorKind::forward) {
    charge(op.chunk, b.activation + b.output);
    return note(op.chunk, used(op.chunk) + b.forward_scratch.value);
  }
  if (op.kind == OperatorKind::backward_weight) {
    set_buffers(op, &GradientBuffers::during);
    return note(op.chunk, used(op.chunk) + b.weight_scratch.value);
  }
  // B trades what F kept for what W needs, unit by unit: it is fullest at its start or at its end. In X, W follows.
  charge(op.chunk, b.input);
  note(op.chunk, used(op.chunk) + b.backward_scratch.value);
  const std::uint64_t traded =
      used(op.chunk) + b.weight_activation.value - b.activation.value - b.input.value - b.output.value;
  note(op.chunk, traded + b.backward_scratch.value);
  if (op.kind == OperatorKind::backward) note(op.chunk, traded + more_buffers(op) + b.weight_scratch.value);
}

void MemoryLedger::finished(const Operator& op) {
  const ChunkBytes& b = bytes_[op.chunk.value];
  if (op.kind == OperatorKind::backward_input || op.kind == OperatorKind::backward)  // input and dy go, W's part stays
    used(op.chunk) = used(op.chunk) - b.activation.value - b.input.value - b.output.value + b.weight_activation.value;
  if (op.kind == OperatorKind::backward_weight || op.kind == OperatorKind::backward) {
    used(op.chunk) -= b.weight_activation.value;
    set_buffers(op, &GradientBuffers::after);
  }
}

std::uint64_t MemoryLedger::more_buffers(const Operator& op) const {
  if (buffers_.empty()) return 0;
  const std::uint32_t during = buffers_[op.micro_batch.value - shape_.first.value].during;
  const std::uint32_t alive = gradients_[op.chunk.value];
  return (during > alive ? during - alive : 0) * bytes_[op.chunk.value].gradient.value;
}

void MemoryLedger::set_buffers(const Operator& op, std::uint32_t GradientBuffers::*count) {
  if (buffers_.empty()) return;
  const std::uint32_t now = buffers_[op.micro_batch.value - shape_.first.value].*count;
  std::uint32_t& alive = gradients_[op.chunk.value];
  used(op.chunk) += (static_cast<std::uint64_t>(now) - alive) * bytes_[op.chunk.value].gradient.value;
  alive = now;
  note(op.chunk, used(op.chunk));
}

}  // namespace stagecraft
