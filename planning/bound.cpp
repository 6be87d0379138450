#include "planning/bound.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "planning/pipeline_graph.hpp"

namespace stagecraft {

namespace {

// The operators of one kind of one chunk. They run in order: heads grow, tails shrink.
struct Queue {
  const std::int64_t *heads, *tails;
  std::int64_t time;
  std::uint32_t next = 0;
  std::int64_t left = 0;  // of the next operator
};

// The makespan of one machine that may interrupt an operator for another with a larger tail.
std::int64_t preemptive_makespan(std::vector<Queue>& queues, std::uint32_t micro_batches) {
  constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  for (Queue& queue : queues) queue.left = queue.time;
  std::int64_t now = 0, makespan = 0;
  while (true) {
    Queue* best = nullptr;
    std::int64_t next_release = never;
    for (Queue& queue : queues) {
      if (queue.next == micro_batches) continue;
      if (queue.heads[queue.next] > now) {
        next_release = std::min(next_release, queue.heads[queue.next]);
      } else if (!best || queue.tails[queue.next] > best->tails[best->next]) {
        best = &queue;
      }
    }
    if (!best) {
      if (next_release == never) return makespan;
      now = next_release;
      continue;
    }
    const std::int64_t run = std::min(best->left, next_release - now);
    now += run;
    best->left -= run;
    if (best->left > 0) continue;
    makespan = std::max(makespan, now + best->tails[best->next]);
    best->left = best->time;
    ++best->next;
  }
}

struct MachineBound {
  std::int64_t makespan = 0;
  std::uint32_t stage = 0;
};

std::vector<std::int64_t> work_per_stage(const PipelineGraph& graph) {
  std::vector<std::int64_t> work(graph.stages);
  for (std::uint32_t c = 0; c < graph.chunks; ++c)
    work[graph.stage_of[c]] += graph.micro_batches * (graph.times[c][0] + graph.times[c][1] + graph.times[c][2]);
  return work;
}

// The largest over the stages; among equals the stage with most work.
MachineBound machine_bound(const PipelineGraph& graph, const std::vector<std::int64_t>& work) {
  const PathLengths heads = heads_of(graph), tails = tails_of(graph);
  std::vector<std::vector<Queue>> queues(graph.stages);
  for (std::uint32_t c = 0; c < graph.chunks; ++c)
    for (std::size_t phase = 0; phase < phases; ++phase)
      queues[graph.stage_of[c]].push_back(
          {heads[phase].data() + graph.index(c, 0), tails[phase].data() + graph.index(c, 0), graph.times[c][phase]});
  MachineBound best;
  for (std::uint32_t s = 0; s < graph.stages; ++s) {
    const std::int64_t makespan = preemptive_makespan(queues[s], graph.micro_batches);
    if (makespan > best.makespan || (makespan == best.makespan && work[s] > work[best.stage])) best = {makespan, s};
  }
  return best;
}

// Forward through all chunks and back; every W starts when its B has ended.
std::int64_t path_of_one(const PipelineGraph& graph) {
  std::int64_t now = 0, longest = 0;
  for (std::uint32_t c = 0; c < graph.chunks; ++c)
    now += graph.times[c][phase_f] + (c > 0 ? graph.forward[c - 1].crossing() : 0);
  for (std::uint32_t c = graph.chunks; c-- > 0;) {
    now += graph.times[c][phase_b];
    longest = std::max(longest, now + graph.times[c][phase_w]);
    if (c > 0) now += graph.backward[c - 1].crossing();
  }
  return longest;
}

}  // namespace

LowerBound lower_bound(const PipelineProblem& problem, BackwardForm backward) {
  const PipelineGraph graph = graph_of(problem, backward);
  if (graph.micro_batches == 0) return {};
  const std::vector<std::int64_t> work = work_per_stage(graph);
  const MachineBound with_caps = machine_bound(graph, work);
  const MachineBound without = graph.unlimited() ? with_caps : machine_bound(without_caps(graph), work);
  LowerBound bound;
  bound.critical_path = Duration{path_of_one(graph)};
  bound.work = Duration{without.makespan};
  bound.memory = Duration{with_caps.makespan};
  bound.makespan = std::max({bound.critical_path, bound.work, bound.memory});
  bound.binding = bound.makespan == bound.critical_path ? Binding::critical_path
                  : bound.makespan == bound.work        ? Binding::work
                                                        : Binding::memory;
  bound.stage.value = bound.binding == Binding::memory ? with_caps.stage : without.stage;
  return bound;
}

std::string to_text(const LowerBound& bound) {
  const std::string least = fmt::format("at least {}: ", format(bound.makespan));
  switch (bound.binding) {
    case Binding::critical_path:
      return least + "one micro-batch takes as long, there and back";
    case Binding::work:
      return least + fmt::format("the work of stage {} with its fill and drain", bound.stage.value);
    case Binding::memory:
      break;
  }
  return least + fmt::format("the memory of stage {}; without caps at least {}", bound.stage.value, format(bound.work));
}

}  // namespace stagecraft
