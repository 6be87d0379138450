// What a reactive stage chooses, against the rule written down in the plainest way: look at every operator in the order
// of priority, take the first that is ready and fits.
#include <gtest/gtest.h>

#include <algorithm>

#include "planning/random.hpp"
#include "planning/stage_machine.hpp"
#include "tests/planning/pipelines.hpp"

namespace stagecraft::pipelines {
namespace {

class PlainRule {
 public:
  explicit PlainRule(StagePlan plan) : plan_(std::move(plan)), cells_(plan_.chunks.size() * plan_.micro_batches) {}

  void arrived(const stage_event::Arrived& e) {
    (e.direction == Direction::forward ? cell(e.chunk, e.micro_batch).input : cell(e.chunk, e.micro_batch).gradient) =
        true;
  }
  void started(const Operator& op) { mark(op, 1); }
  void finished(const Operator& op) {
    mark(op, 2);
    if (op.kind == F && plan_.ends_model && op.chunk == plan_.chunks.back())
      cell(op.chunk, op.micro_batch).gradient = true;
  }

  std::optional<Operator> choose() {
    for (const OperatorKind kind : {B, F, W}) {
      for (std::uint32_t m = 0; m < plan_.micro_batches; ++m) {
        std::vector<ChunkId> chunks = plan_.chunks;
        if (kind == B) std::reverse(chunks.begin(), chunks.end());
        for (const ChunkId chunk : chunks) {
          const Operator op{kind, chunk, MicroBatch{plan_.first.value + m}};
          if (ready(op) && fits(op)) return op;
        }
      }
    }
    return std::nullopt;
  }

 private:
  struct Cell {
    bool input = false, gradient = false;
    int forward = 0, backward = 0, weight = 0;  // 1: started, 2: done
  };

  Cell& cell(ChunkId chunk, MicroBatch m) {
    const auto index = std::find(plan_.chunks.begin(), plan_.chunks.end(), chunk) - plan_.chunks.begin();
    return cells_[static_cast<std::size_t>(index) * plan_.micro_batches + m.value - plan_.first.value];
  }
  void mark(const Operator& op, int state) {
    Cell& c = cell(op.chunk, op.micro_batch);
    (op.kind == F ? c.forward : op.kind == B ? c.backward : c.weight) = state;
  }
  bool ready(const Operator& op) {
    const Cell& c = cell(op.chunk, op.micro_batch);
    if (op.kind == F) return c.input && c.forward == 0;
    if (op.kind == B) return c.gradient && c.forward == 2 && c.backward == 0;
    return c.backward == 2 && c.weight == 0 && is_next_weight(op);
  }
  std::uint32_t count(int Cell::*what, int least) const {
    return static_cast<std::uint32_t>(
        std::count_if(cells_.begin(), cells_.end(), [&](const Cell& c) { return c.*what >= least; }));
  }
  bool fits(const Operator& op) {
    if (op.kind == F)
      return admits(plan_.caps.activations, count(&Cell::forward, 1) - count(&Cell::backward, 2), op, &Cell::forward) &&
             admits(plan_.caps.held, count(&Cell::forward, 1) - count(&Cell::weight, 2), op, &Cell::forward);
    if (op.kind != B || !plan_.caps.pending_weights) return true;
    const std::uint32_t used = count(&Cell::backward, 1) - count(&Cell::weight, 2), cap = *plan_.caps.pending_weights;
    return used + 1 < cap || (used < cap && is_next_weight(op));
  }
  // Its W would be the next of its chunk.
  bool is_next_weight(const Operator& op) {
    for (std::uint32_t m = plan_.first.value; m < op.micro_batch.value; ++m)
      if (cell(op.chunk, {m}).weight < 2) return false;
    return true;
  }
  // With op served, the lowest micro-batch that still lacks places must find one for each chunk, unless op is its own.
  bool admits(std::optional<std::uint32_t> cap, std::uint32_t used, const Operator& op, int Cell::*served) {
    if (!cap) return true;
    if (used >= *cap) return false;
    for (std::uint32_t m = plan_.first.value; m < plan_.first.value + plan_.micro_batches; ++m) {
      std::uint32_t lacking = 0;
      for (const ChunkId chunk : plan_.chunks)
        if (cell(chunk, {m}).*served == 0) ++lacking;
      if (lacking > 0) return m == op.micro_batch.value || *cap - used - 1 >= lacking;
    }
    return true;
  }

  StagePlan plan_;
  std::vector<Cell> cells_;  // [chunk][micro-batch - first]
};

// One stage of a pipeline of three, alone, with random caps.
StagePlan random_stage(Entropy& draw) {
  const auto between = [&](std::uint64_t low, std::uint64_t high) {
    return static_cast<std::uint32_t>(draw.between(low, high));
  };
  const std::uint32_t chunks = between(1, 3);
  const PipelineShape shape = shape_of(3, between(1, 8), chunks, between(0, 4));
  StagePlan plan = reactive_plans(shape)[draw.below(3)];
  if (draw.below(3) > 0) plan.caps.activations = between(chunks, chunks + 3);
  if (draw.below(3) > 0) plan.caps.held = between(chunks, chunks + 3);
  if (draw.below(3) > 0) plan.caps.pending_weights = between(1, 3);
  return plan;
}

TEST(StageChoice, is_that_of_the_plain_rule_whatever_comes_in_whatever_order) {
  int choices = 0;
  for (std::uint64_t seed = 0; seed < 3'000; ++seed) {
    Entropy draw(seed, "stage choice");
    const StagePlan plan = random_stage(draw);
    StageMachine machine(plan);
    PlainRule rule(plan);
    std::vector<stage_event::Arrived> arrivals;
    for (const ChunkId chunk : plan.chunks) {
      for (std::uint32_t m = plan.first.value; m < plan.first.value + plan.micro_batches; ++m) {
        arrivals.push_back({chunk, Direction::forward, {m}});
        if (!plan.ends_model || chunk != plan.chunks.back()) arrivals.push_back({chunk, Direction::backward, {m}});
      }
    }
    std::optional<Operator> running;
    while (!machine.finished()) {
      if (!arrivals.empty() && draw.below(2) == 0) {
        std::swap(arrivals[draw.below(arrivals.size())], arrivals.back());
        machine.step(arrivals.back());
        rule.arrived(arrivals.back());
        arrivals.pop_back();
      } else if (running) {
        rule.finished(*running);
        machine.step(stage_event::Finished{*running});
        running.reset();
      } else {
        const std::optional<Operator> expected = rule.choose();
        for (const StageEffect& effect : machine.step(stage_event::Choose{}))
          if (const auto* start = std::get_if<stage_effect::Start>(&effect)) running = std::get<Operator>(start->op);
        ASSERT_EQ(running ? to_text(*running) : "nothing", expected ? to_text(*expected) : "nothing")
            << "seed " << seed << "; " << machine.explain();
        ASSERT_TRUE(running || !arrivals.empty()) << "stuck at seed " << seed << "; " << machine.explain();
        if (running) rule.started(*running), ++choices;
      }
    }
  }
  EXPECT_GT(choices, 50'000);
}

}  // namespace
}  // namespace stagecraft::pipelines
