// Runs one job in one world from start to end: plan, spawn, drive, gather, check, clean up. What the commands `run` and
// `sim` and the tests share.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/messages.hpp"
#include "actors/world/world.hpp"
#include "config/topology.hpp"
#include "model/stage_model.hpp"

namespace stagecraft {

struct RunOptions {
  NegativeControls controls;
  std::string log_path, trace_path;                          ///< empty: not kept
  std::function<void(const IterationReport&)> on_iteration;  ///< called on the driving thread
  std::function<bool()> stop_asked;                          ///< asked often; true: finish the iteration and end
  CapsRule caps_rule = CapsRule::reserve;                    ///< negative control of the caps
};

/// Memory of one stage: what the plan said and what the arena saw.
struct StageMemory {
  Place place;
  Bytes planned, peak, limit;
  std::uint64_t overdrafts = 0;
};

struct RunResult {
  Ending ending = Ending::bug;
  std::string reason;
  std::vector<IterationReport> iterations;
  std::string weights_sha256, moments_sha256;  ///< over all groups in model order; empty unless done or stopped
  std::vector<StageMemory> memory;
  std::vector<StageProfile> profile;
  std::vector<TimedOperator> last_iteration;
  std::vector<std::string> violations;  ///< broken invariants
  std::string corpus_sha256;            ///< of the training text; empty on emulated devices
  std::uint64_t event_hash = 0, events = 0;
  std::string log, trace, log_error;
  Duration elapsed{};  ///< of the world's clock, spawn to end
};

/// Thrown before anything is spawned, with all problems in the text: too little memory, or a training text that is
/// missing, unreadable or too small.
class CannotStart : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// On the thread that owns the world. The topology must be valid. Ends every actor and every stream before it returns.
RunResult run_job(World& world, const Topology& topology, const RunOptions& options);

}  // namespace stagecraft
