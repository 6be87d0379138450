// From a topology to what every stage hosts and runs: units, plans, costs, and the memory they will take. Pure; any
// thread.
#pragma once

#include <memory>
#include <vector>

#include "config/topology.hpp"
#include "model/arithmetic.hpp"
#include "model/stage_model.hpp"
#include "planning/layout_move.hpp"
#include "planning/plan.hpp"

namespace stagecraft {

/// Charged bytes of one stage actor at its fullest.
struct MemoryEstimate {
  Bytes parameters;
  Bytes moments;
  Bytes snapshot;  ///< a second copy of both, while a slow disk still reads the first; only where checkpoints are due
  Bytes working;   ///< activations, tensors in slots, gradient buffers, scratch: the peak of the forecast
  Bytes total() const { return parameters + moments + snapshot + working; }
};

/// What follows from the layers of each chunk alone. It may change while a job runs (Life of a move).
struct JobLayout {
  Layout layers;                                              ///< per chunk
  std::vector<std::shared_ptr<const Arithmetic>> arithmetic;  ///< per stage
  std::vector<std::vector<ChunkUnits>> chunks;                ///< per stage
  std::vector<OperatorTimes> times;                           ///< per chunk, as the cost model charges them

  StageShare share(const Topology& topology, Place place) const;
};

struct JobPlan : JobLayout {
  Duration reduce_time{}, step_time{};  ///< of one parameter group
  std::vector<PlanRequest> requests;    ///< per replica: what its plan was made from
  std::vector<PipelinePlan> replicas;
  bool replans = false;     ///< schedule planned: from what is measured, while it runs
  bool knows_times = true;  ///< the plans were made for the costs of the file; else nobody knows any yet
  std::vector<std::vector<MemoryEstimate>> memory;  ///< [replica][stage]
  std::uint64_t parameters = 0;                     ///< of the model that will be built; tied tables once
};

/// Multiply-adds per second, x 2, that the cost model believes a cpu device does. Only the virtual world's clock and
/// the forecast depend on it.
inline constexpr double assumed_cpu_flops = 20e9;

/// The topology must be valid (load_topology). `controls` reach the plans.
JobPlan plan_job(const Topology& topology, const NegativeControls& controls = {});
/// The same job with other layers per chunk, which must add up; `present` is a layout of it.
JobLayout lay_out(const Topology& topology, const JobLayout& present, const Layout& layers);

}  // namespace stagecraft
