#include "planning/generate/squeeze.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "planning/bug.hpp"

namespace stagecraft {

namespace {

constexpr OperatorKind F = OperatorKind::forward, B = OperatorKind::backward_input, W = OperatorKind::backward_weight;

// All operators take one round and messages none, so whole rounds do for events: every stage chooses on what was done
// before the round. The operators of one chunk and kind keep their order, so that counts tell what has run.
class Squeezer {
 public:
  Squeezer(const PipelineShape& shape, const Schedule& schedule, std::uint32_t cap)
      : shape_(shape), cap_(cap), stages_(shape.stages), done_(shape.total_chunks()) {
    for (std::uint32_t s = 0; s < shape.stages; ++s) {
      stages_[s].list = schedule.operators[s];
      stages_[s].started.resize(stages_[s].list.size());
    }
    result_.operators.resize(shape.stages);
  }

  Schedule run() {
    while (play_round()) {
    }
    for (std::uint32_t s = 0; s < shape_.stages; ++s)
      STAGECRAFT_ASSERT(stages_[s].head == stages_[s].list.size(), "stage {} can't go on after {} of {} operators", s,
                        result_.operators[s].size(), stages_[s].list.size());
    return std::move(result_);
  }

 private:
  struct Stage {
    std::vector<Operator> list;
    std::vector<bool> started;
    std::size_t head = 0;    // the first that hasn't started
    std::uint32_t held = 0;  // F - W
  };

  bool play_round() {
    std::vector<std::pair<std::uint32_t, std::size_t>> chosen;
    for (std::uint32_t s = 0; s < shape_.stages; ++s)
      if (const auto index = choose(s)) chosen.emplace_back(s, *index);
    for (const auto& [s, index] : chosen) start(s, index);
    return !chosen.empty();
  }

  void start(std::uint32_t s, std::size_t index) {
    Stage& stage = stages_[s];
    const Operator& op = stage.list[index];
    stage.started[index] = true;
    while (stage.head < stage.list.size() && stage.started[stage.head]) ++stage.head;
    if (op.kind == F) ++stage.held;
    if (op.kind == W) --stage.held;
    ++done_[op.chunk.value][static_cast<std::size_t>(op.kind)];
    result_.operators[s].push_back(op);
  }

  // The first operator of the list that is ready and may go in front of what hasn't started before it.
  std::optional<std::size_t> choose(std::uint32_t s) const {
    const Stage& stage = stages_[s];
    std::uint32_t level = stage.held, peak = level;
    std::uint32_t left = ready_count(s);
    for (std::size_t i = stage.head; left != 0; ++i) {
      if (stage.started[i]) continue;
      const Operator& op = stage.list[i];
      if (is_ready(op)) {
        if (i == stage.head || op.kind != F || peak + 1 <= cap_) return i;
        --left;
      }
      if (op.kind == F) peak = std::max(peak, ++level);
      if (op.kind == W) --level;
    }
    return std::nullopt;
  }

  std::uint32_t count(ChunkId chunk, OperatorKind kind) const {
    return done_[chunk.value][static_cast<std::size_t>(kind)];
  }
  bool next_is_ready(ChunkId chunk, OperatorKind kind) const {
    const std::uint32_t next = count(chunk, kind);
    if (next == shape_.micro_batches) return false;
    const bool last = chunk.value + 1 == shape_.total_chunks();
    if (kind == F) return chunk.value == 0 || count({chunk.value - 1}, F) > next;
    if (kind == B) return count(chunk, F) > next && (last || count({chunk.value + 1}, B) > next);
    return count(chunk, B) > next;
  }
  bool is_ready(const Operator& op) const {
    return op.micro_batch.value == shape_.first.value + count(op.chunk, op.kind) && next_is_ready(op.chunk, op.kind);
  }
  std::uint32_t ready_count(std::uint32_t s) const {
    std::uint32_t ready = 0;
    for (std::uint32_t c = 0; c < shape_.chunks; ++c)
      for (const OperatorKind kind : {F, B, W}) ready += next_is_ready(shape_.chunk_of(StageId{s}, c), kind) ? 1 : 0;
    return ready;
  }

  const PipelineShape& shape_;
  std::uint32_t cap_;
  std::vector<Stage> stages_;
  std::vector<std::array<std::uint32_t, 3>> done_;  // by chunk and kind
  Schedule result_;
};

}  // namespace

Schedule squeeze(const PipelineShape& shape, const Schedule& schedule, std::uint32_t cap) {
  return Squeezer(shape, schedule, cap).run();
}

}  // namespace stagecraft
