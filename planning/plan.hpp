// From what a file asks for to what the stages of one replica run: orders, caps, credits, and the forecast of the
// simulator that checked them. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planning/generate.hpp"
#include "planning/planner.hpp"
#include "planning/simulate.hpp"

namespace stagecraft {

/// A cap on what a stage holds: none, a number for every stage, or as much as the named schedule itself would hold.
/// Schedules that are made within caps (zb-auto, planned) take both of the first for no cap.
struct CapSpec {
  enum class Kind : std::uint8_t { automatic, off, fixed } kind = Kind::automatic;
  std::uint32_t value = 0;
  bool operator==(const CapSpec&) const = default;
};

struct PlanRequest {
  PipelineShape shape;  ///< placed as the schedule wants it (placement_of)
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  Dispatch dispatch = Dispatch::reactive;
  std::optional<Schedule> list;                         ///< a list that is there already, instead of the schedule's
  std::vector<std::uint32_t> warmup;                    ///< per stage; empty: the schedule's own
  std::vector<StageCaps> limits;                        ///< per stage, on top of the caps of the file; empty: none
  CapSpec activations, pending_weights;                 ///< on F - W and B - W; a list that runs in order has none
  std::optional<std::uint32_t> credits;                 ///< none: as many as the plan needs
  std::vector<OperatorTimes> times;                     ///< per chunk
  std::vector<LinkCost> forward_links, backward_links;  ///< per boundary; empty: free
  std::vector<ChunkBytes> bytes;                        ///< per chunk
  std::vector<GradientBuffers> buffers;                 ///< per micro-batch
};

struct PipelinePlan {
  std::vector<StagePlan> stages;
  std::vector<std::uint32_t> warmup;
  std::uint32_t credits = 1;
  std::uint32_t credits_needed = 1;  ///< the fewest with which no stage ever waits for a slot
  SimulationResult forecast;
  std::vector<OperatorTimes> times;   ///< that it was made for
  Schedule schedule;                  ///< the list; empty where there is none (reactive dispatch of a fused schedule)
  std::string made_by;                ///< schedule planned: the candidate that won
  std::vector<Candidate> candidates;  ///< schedule planned: all that were tried
  std::vector<std::string> notes;     ///< what was changed to make it run, and what will cost time
};

/// What the named schedule is made for. A cap that is not a number is none: such schedules take what they need.
PipelineProblem problem_of(const PlanRequest& request);

/// The list of the named schedule, made for the request's own times, links and caps, for stages that run it in order or
/// follow it; under reactive dispatch only what it holds counts, as caps. Never fails for valid numbers: an order that
/// can't proceed with the warm-ups given gets more until it runs (at the latest when all forwards come first), and the
/// notes say so. Caps are at least the number of chunks.
PipelinePlan make_plan(const PlanRequest& request);

}  // namespace stagecraft
