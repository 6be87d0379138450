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
#include "model/checkpoint/checkpoint.hpp"
#include "model/stage_model.hpp"

namespace stagecraft {

class Cluster;
class RunningJob;
struct NodeHandles;

struct RunOptions {
  NegativeControls controls;
  std::string log_path, trace_path;  ///< empty: not kept
  std::string folder;                ///< of the run, for nodes that lead it later; empty: they keep no files
  /// Of this job alone; empty: no checkpoint is kept. Those after the point where the run begins are moved aside.
  std::string checkpoint_folder;
  std::string resume_from;                                   ///< a checkpoint to continue; empty: start anew
  std::vector<PassedOver> passed_over;                       ///< newer ones that were not sound, for the log
  std::function<void(const IterationReport&)> on_iteration;  ///< called on the driving thread
  std::function<bool()> stop_asked;                          ///< asked often; true: finish the iteration and end
  /// Called often while the job runs, on the driving thread, and once more when it has ended: for whoever attends to
  /// people who ask of it. News of theirs call for World::news().
  std::function<void(RunningJob&)> attend;
  std::optional<Duration> deadline;  ///< of the world's clock; a run that takes longer says who waits for whom
  /// Called once everyone is there, on the driving thread: for whoever injects faults. Nobody keeps the handles.
  std::function<void(const std::vector<NodeHandles>&)> started;
  /// The same job with other costs, for which the plan is made instead: what the planner believes, where the topology
  /// is what devices and links do. Not null: outlives the start of the run.
  const Topology* planned_for = nullptr;
  /// This process is the first node of several: the others come, run their parts and end with it. Not null: outlives
  /// the run.
  Cluster* cluster = nullptr;
  /// While the others come, on this thread: why to give up, if so; and what people should know.
  struct StartUp {
    std::function<std::optional<std::string>()> ends = [] { return std::nullopt; };
    std::function<void(const std::string&)> say = [](const std::string&) {};
  } start_up;
  /// Each node of the file gets a cast of its own, and what passes between two of them its wire form.
  bool apart = false;
  std::vector<Move> moves;                 ///< of layers, each in its iteration
  CapsRule caps_rule = CapsRule::reserve;  ///< negative control of the caps
};

/// Memory of one stage: what the plan said and what the arena saw.
struct MemoryUse {
  Place place;
  Bytes planned, peak, limit;
  std::uint64_t overdrafts = 0;
};

struct RunResult {
  Ending ending = Ending::bug;
  std::string reason;
  std::vector<IterationReport> iterations;
  std::string weights_sha256, moments_sha256;  ///< over all groups in model order; empty unless done or stopped
  std::vector<MemoryUse> memory;
  std::vector<StageProfile> profile;
  std::vector<TimedOperator> last_iteration;
  std::vector<std::string> violations;  ///< broken invariants
  std::string corpus_sha256;            ///< of the training text; empty on emulated devices
  std::uint64_t event_hash = 0, events = 0;
  std::uint64_t losses = 0;       ///< of stages and twins
  std::uint64_t begun_again = 0;  ///< iterations, after a loss or a deadline
  Layout layout;                  ///< at the end
  std::uint64_t moves = 0;        ///< of layers, that were made
  std::string log, trace, log_error;
  std::string resumed_from;             ///< the checkpoint that was continued; empty: started anew
  std::uint32_t start_iteration = 0;    ///< of that checkpoint
  std::vector<PassedOver> passed_over;  ///< newer checkpoints than that, which were not sound
  std::string set_aside;                ///< where checkpoints of another history are now; empty: there was none
  std::uint32_t saved_iteration = 0;    ///< of the newest checkpoint that this run completed; 0: none
  std::string checkpoint_error;         ///< why the last checkpoint that was wanted does not stand
  Duration shutdown{};                  ///< until everyone was gone
  Duration elapsed{};                   ///< of the world's clock, spawn to end
};

/// Thrown before anything is spawned, with all problems in the text: too little memory, a training text that is
/// missing, unreadable or too small, a checkpoint that is damaged or belongs to another job.
class CannotStart : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What a run of this topology on a text of this hash must share with a checkpoint that it continues.
JobIdentity identity_of(const Topology& topology, const std::string& corpus_sha256);

/// On the thread that owns the world. The topology must be valid. Ends every actor and every stream before it returns.
RunResult run_job(World& world, const Topology& topology, const RunOptions& options);

}  // namespace stagecraft
