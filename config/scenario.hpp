// What a scenario file says: a topology, the faults that strike a run of it, and what is expected of the run, as
// validated values. Values only; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/diagnostics.hpp"
#include "config/topology.hpp"
#include "planning/ids.hpp"
#include "planning/layout_move.hpp"
#include "planning/units.hpp"

namespace stagecraft {

enum class FaultKind : std::uint8_t {
  delay,       ///< tensors of a link come later
  throttle,    ///< a link has less bandwidth
  drop,        ///< control messages are lost
  duplicate,   ///< control messages come twice
  reorder,     ///< control messages overtake one another
  partition,   ///< nothing passes between two nodes until it heals
  link_down,   ///< nothing passes a link until it heals
  pause,       ///< a device stops in the midst of its work
  kill,        ///< an actor dies
  slow,        ///< a device takes longer
  oom,         ///< an operator finds no memory
  nan,         ///< an operator gives something that is no number
  disk_full,   ///< a disk operation finds no space
  torn_write,  ///< a disk operation is cut off, as by the death of its process
  flip,        ///< one bit is written wrong, and nobody is told
  skew,        ///< a node's clock is wrong
};
inline constexpr std::size_t fault_kinds = std::size_t(FaultKind::skew) + 1;
/// The word of the file.
std::string_view name_of(FaultKind kind);
/// It is over in the moment in which it strikes: it takes no duration and needs no healing.
bool strikes_once(FaultKind kind);
/// The real world can make it. The others need the simulated control plane, clocks or disk.
bool is_possible_in_real_world(FaultKind kind);
/// It strikes an operation of the disk of the checkpoints.
bool is_disk_fault(FaultKind kind);

/// What a fault strikes. One kind of thing.
struct FaultTarget {
  enum class Kind : std::uint8_t {
    link,   ///< between two neighbouring stages: `stage` and `other`
    stage,  ///< with its device
    twin,   ///< the copy of a stage's state
    nodes,  ///< one or two, as indices of the topology's nodes
    disk,   ///< that of the checkpoints
    job,    ///< all of it
  } kind = Kind::job;
  StageId stage, other;                 ///< link: in the order of the file
  std::optional<Direction> direction;   ///< link: none means both
  std::optional<ReplicaId> replica;     ///< link, stage, twin: none means all (links) or the first (stage, twin)
  std::vector<std::string> node_names;  ///< as the file has them
  std::vector<std::uint32_t> nodes;     ///< filled in by `check_against`, once they are known
  Position at, replica_at;
};
inline constexpr std::size_t target_kinds = std::size_t(FaultTarget::Kind::job) + 1;
std::string_view name_of(FaultTarget::Kind kind);

/// What a run tells while it runs, and a trigger may wait for.
enum class RunEvent : std::uint8_t {
  opened,           ///< an iteration begins
  forward_started,  ///< of a micro-batch, on a stage
  forward_done,
  backward_started,  ///< B, or B and W in one
  backward_done,
  weight_started,
  weight_done,
  reduce_done,  ///< a stage has reduced a parameter group
  ready,        ///< a stage has everything reduced
  committed,    ///< an iteration is decided
  stepped,      ///< a stage has stepped
  saving,       ///< a checkpoint is begun
  saved,
  recovered,  ///< an iteration was opened again after a loss
};
inline constexpr std::size_t run_events = std::size_t(RunEvent::recovered) + 1;
std::string_view name_of(RunEvent event);
/// It is told of one stage of one replica.
bool has_stage(RunEvent event);
/// It is told of one micro-batch.
bool has_micro_batch(RunEvent event);

/// An event with conditions; what is not given matches everything.
struct EventPattern {
  RunEvent event = RunEvent::opened;
  std::optional<StageId> stage;
  std::optional<ReplicaId> replica;
  std::optional<MicroBatch> micro_batch;
  std::optional<Iteration> iteration;
  Position at, stage_at, replica_at, micro_batch_at, iteration_at;
};

/// How often a drawn fault strikes at most, where the file does not say it.
inline constexpr std::uint32_t usual_strikes = 1000;

/// When a fault strikes.
struct Trigger {
  enum class Kind : std::uint8_t {
    start,      ///< with the first iteration (nothing was given)
    iteration,  ///< when it opens
    time,       ///< since the first iteration opened
    event,      ///< the first one that matches
    drawn,      ///< again and again, after exponential waits
  } kind = Kind::start;
  Iteration iteration;
  Duration time{};  ///< drawn: the mean between two (mtbf)
  EventPattern event;
  std::uint32_t at_most = 1;  ///< times
  Position at;                ///< of the iteration or time; of an event see the pattern
};

struct FaultSpec {
  std::string id;
  FaultKind kind = FaultKind::delay;
  FaultTarget on;
  Trigger trigger;
  std::optional<std::uint32_t> iterations;  ///< how long: iterations,
  std::optional<Duration> time;             ///< or time; neither: to the end, or to the calm
  // with: what the kind takes
  Duration mean{};              ///< delay, reorder: mean of the exponential lateness; zero: not drawn
  Duration constant{};          ///< delay: the same for every tensor
  double factor = 1;            ///< slow, throttle: times longer
  double probability = 1;       ///< drop, duplicate, reorder: of each message
  Duration offset{};            ///< skew
  std::uint32_t operation = 1;  ///< disk faults: the n-th operation from then on; the first is 1
  Position at, kind_at;
};

/// Layers that are to move to other stages while the job runs.
struct MoveSpec {
  Iteration iteration;  ///< when it opens
  LayerRun layers;      ///< only without a layout
  StageId to;
  Layout layout;  ///< empty: as the layers say
  Position at, what_at;
};

/// Something that must never happen, in any run.
enum class Invariant : std::uint8_t {
  stale_epoch_accepted,  ///< a message of an older epoch was acted on
  micro_batch_lost,      ///< an operator of a committed iteration did not run
  micro_batch_twice,     ///< an operator of a committed iteration ran twice
  credit_leak,           ///< a receive slot did not come back
  step_before_commit,    ///< weights changed before the iteration was decided
  epoch_went_back,
  unanswered,          ///< a request had no answer within its deadline
  left_behind,         ///< actors, timers or credits after the end
  damaged_checkpoint,  ///< a checkpoint that is not sound was offered as one
};
inline constexpr std::size_t invariants = std::size_t(Invariant::damaged_checkpoint) + 1;
std::string_view name_of(Invariant invariant);

struct Expectation {
  enum class Kind : std::uint8_t {
    iteration_time,
    progress,
    loss,
    never,
    committed,
    checkpoint,
    moved,
    shutdown,
  } kind = Kind::never;
  std::string fault;               ///< iteration_time: during or after; progress: after. Empty: the whole run
  bool after = false;              ///< iteration_time: after the fault instead of during it
  std::uint32_t settle = 0;        ///< iteration_time: iterations that do not count yet
  std::optional<double> ratio;     ///< iteration_time: at most this times the fault-free run's
  std::optional<Duration> within;  ///< iteration_time: at most; progress, shutdown: within
  double tolerance = 0;            ///< loss: relative; 0: exact, weights and moments too
  std::vector<Invariant> never;
  std::uint32_t at_least = 0;  ///< committed: iterations; checkpoint: iteration of the newest sound one; moved: moves
  Position at;
  Position fault_at;
  Position number_at;  ///< of `settle` or `at_least`; of the expectation where it is not given
};
inline constexpr std::size_t expectation_kinds = std::size_t(Expectation::Kind::shutdown) + 1;
std::string_view name_of(Expectation::Kind kind);

/// All faults are healed and none begins from an iteration on; from then on progress is demanded.
struct Calm {
  Iteration from;
  Duration within{};  ///< each iteration
  Position at;
};

enum class ScenarioWorld : std::uint8_t { virtual_clock, real };
std::string_view name_of(ScenarioWorld world);
/// That of a file which names none.
Duration usual_deadline(ScenarioWorld world);

/// Of one scenario, or of one call.
inline constexpr std::uint64_t most_seeds = 1'000'000;

struct Scenario {
  std::string file;  ///< as given
  std::string name;
  std::string shows;     ///< a sentence: what it is there for
  std::string topology;  ///< path, relative to the working directory
  Position topology_at;
  std::vector<std::string> set;  ///< overrides of the topology, dotted.key=value
  std::vector<Position> set_at;  ///< of each
  ScenarioWorld world = ScenarioWorld::virtual_clock;
  std::uint64_t first_seed = 1, last_seed = 1;
  Duration deadline{};  ///< of the world's clock: a run that is not over by then is stopped (exit 4)
  std::vector<FaultSpec> faults;
  std::vector<MoveSpec> moves;
  std::vector<Expectation> expect;
  std::optional<Calm> calm;
};

}  // namespace stagecraft
