// Every message that crosses an actor boundary, but for those that carry handles of actors (doors.hpp).
//
// Data messages carry the key (epoch, iteration): older ones are dropped, newer ones held. Messages with handles to
// buffers have no wire form: between processes the bytes go through a channel, never through a message.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/caf.hpp"
#include "actors/event.hpp"
#include "actors/faults/injector_machine.hpp"
#include "actors/wish_messages.hpp"
#include "gpu/stream.hpp"
#include "model/checkpoint/checkpoint.hpp"
#include "model/job_plan.hpp"
#include "model/stage_model.hpp"
#include "planning/detector/samples.hpp"
#include "planning/ids.hpp"
#include "planning/migration_machine.hpp"
#include "planning/plan.hpp"
#include "planning/route.hpp"
#include "planning/stage_machine.hpp"
#include "transport/channel.hpp"

namespace stagecraft {

// -- the life of an iteration
/// What became of an iteration's gradient.
struct Decision {
  enum class Kind : std::uint8_t { none, step, skip } kind = Kind::none;
  double clip = 1;           ///< factor on the gradient
  std::uint64_t step = 0;    ///< number of the optimizer step, from 1
  std::uint64_t tokens = 0;  ///< of the whole iteration
  bool operator==(const Decision&) const = default;
};

/// coordinator -> stages. Says at once "the iteration before key.iteration is decided" and "run this one".
struct Open {
  Key key;
  Decision decision;
  bool last = false;        ///< nothing is left to run: step, then report the state
  bool checkpoint = false;  ///< after the step, lend the state to the checkpointer
  Instant due{};
  bool restores = false;  ///< begin from what the Restore of this key brings, whatever you hold
  Layout layout;          ///< in force from now on. Where it is another one, it is as decided as the step.
  MoveId move;            ///< the move of layers that is under way; whoever takes part in another one forgets it
};
struct Joined {  ///< stage -> coordinator: initialised and wired
  Place place;
};
struct IterationReady {  ///< reducer -> coordinator: every reduced gradient of this stage is held by its owner
  Key key;
  Place place;
  ExactSum square_sum, loss;
  std::uint64_t tokens = 0;
  Instant due{};
};
struct Announce {  ///< first stage -> loader: send the micro-batches of this replica
  Key key;
  ReplicaId replica;
  Instant due{};
};
struct Prefetch {  ///< loader -> itself: build the batches of an iteration ahead of time
  Iteration iteration;
};

// -- the data path
struct Tokens {  ///< loader -> the stages of the first and the last chunk
  Key key;
  ChunkId chunk;
  std::shared_ptr<const TokenBatch> batch;
  Instant due{};
};
struct TensorMessage {  ///< stage -> link end -> (channel) -> link end -> stage
  Key key;
  ChunkId to;
  Direction direction = Direction::forward;
  MicroBatch micro_batch;
  std::shared_ptr<const Packing> packing;
  Tensor value;
  Instant due{};
  Instant sent{};  ///< when it left its link end, as events tell time
};
/// stage -> link end -> (channel) -> link end -> stage, follow only: an operator began that will send a tensor.
struct Announcement {
  Key key;
  ChunkId to;
  Direction direction = Direction::forward;
  MicroBatch micro_batch;
  Duration after{};  ///< what the operator takes
  Instant due{};     ///< when it began; at the receiver: when this arrived
};
struct ParcelMessage {  ///< channel -> link end
  Parcel parcel;
};
struct Credit {  ///< stage -> its link end -> the other end: a receive slot is free again
  Key key;
  Direction direction = Direction::forward;
  MicroBatch micro_batch;
  Instant due{};  ///< when the operator that adopted the tensor started
  /// Filled in by the far end, by its clock: when the tensor and its announcement came; `never`: they did not.
  Instant arrived = never, announced = never;
  static constexpr Instant never{-1};
};

// -- the device
struct OperatorDone {  ///< completions -> stage or checkpointer
  Completion completion;
};
struct InstantOver {  ///< the world -> stage: nothing else happens at this instant
  Key key;
};
struct WakeUp {  ///< timer -> stage: look again, unless you have chosen since
  Key key;
  std::uint64_t choice = 0;  ///< how often the stage had chosen
  Instant due{};
};

// -- reduction
struct Subtrees {  ///< stage -> its reducer: what this replica has accumulated
  Key key;
  GroupId group;
  std::vector<Segment> segments;
  Instant due{};
};
struct StageDone {  ///< stage -> its reducer: every micro-batch is through
  Key key;
  LossSum loss;
  Instant due{};
  std::uint64_t groups = 0;  ///< how many it has
};
struct Segments {  ///< reducer -> the reducers of the same stage on all replicas
  Key key;
  GroupId group;
  ReplicaId from;
  std::vector<Segment> segments;
  Instant due{};
};
struct ReduceOrder {  ///< reducer -> its stage: evaluate the tree on the owned blocks
  Key key;
  GroupId group;
  std::vector<Segment> segments;
  Instant due{};
};
struct Reduced {  ///< stage -> its reducer
  Key key;
  GroupId group;
  ExactSum square_sum;
  Tensor gradient;  ///< the owned blocks; of a tied table: for the other end
  Instant due{};
};
struct TiePart {  ///< reducer -> the reducer at the other end of tied embeddings, same replica
  Key key;
  Tensor value;
  Instant due{};
};
struct TieOrder {  ///< reducer -> its stage: add the two ends
  Key key;
  Tensor partner;
  Instant due{};
};
struct Tied {  ///< stage -> its reducer
  Key key;
  GroupId group;
  ExactSum square_sum;
  Tensor gradient;  ///< the owned blocks of the sum
  Instant due{};
};
struct ParameterParts {  ///< stage -> its replicas: the blocks it owns, after a step
  Key key;
  ReplicaId from;
  std::map<GroupId, Tensor> parts;
  Instant due{};
};

// -- the end, and the watch
/// An actor that can be lost and is then replaced.
struct Member {
  enum class Role : std::uint8_t { stage, twin } role = Role::stage;
  Place place;
  auto operator<=>(const Member&) const = default;
};
std::string to_text(const Member& member);
/// What one stage holds when the job is over.
struct StageState {
  Place place;
  std::map<GroupId, Tensor> parameters, first_moments, second_moments;  ///< moments: owned blocks
  Bytes peak;
  std::uint64_t overdrafts = 0;
};
struct StageReport {  ///< stage -> coordinator: stepped past the last iteration
  Key key;
  StageState state;
};

// -- twins, and what follows a loss
/// reducer -> twin: the reduced gradient of the owned blocks, all groups. With the decision it is the redo log.
struct TwinGradients {
  Key key;
  std::map<GroupId, Tensor> gradients;
  Instant due{};
};
struct TwinReady {  ///< twin -> coordinator: it has stepped the iteration before, and holds the gradient of this one
  Key key;
  Place place;
};
/// rebuilt stage -> its twin, empty twin -> its stage: what do you hold after iteration key.iteration - 1?
struct AskState {
  Key key;
};
struct StateGiven {  ///< the answer. Its giver leaves these buffers alone until LoanOver.
  Key key;
  StageState state;
  Instant due{};
};
struct Lost {  ///< node -> coordinator
  Member who;
  std::string why;
};
struct Replace {  ///< coordinator -> node: spawn others in their place
  std::vector<Member> who;
};
struct Replaced {  ///< node -> coordinator: everyone has been told
  std::vector<Member> who;
};
/// coordinator -> checkpointer: what is the newest checkpoint that is sound?
struct FindCheckpoint {
  Key key;
};
struct CheckpointFound {  ///< checkpointer -> coordinator
  Key key;
  std::shared_ptr<const LoadedCheckpoint> checkpoint;  ///< none: there is none
  std::string passed_over;                             ///< newer ones that are not sound, and why
};
/// coordinator -> stages and twins, with the Open of the same key: forget what you hold, begin from this.
struct Restore {
  Key key;
  std::shared_ptr<const LoadedCheckpoint> from;  ///< none: the first parameters
};
/// node -> the leading node: somebody here met a broken invariant.
struct NodeFailed {
  std::string why;
};
struct NodeGone {
  std::uint32_t node = 0;
  std::string why;
};
/// gate -> the node that leads: those nodes are gone, and these are left.
struct NodesGone {
  std::vector<NodeGone> gone;
  std::vector<std::uint32_t> left;
};
/// gate -> node: that one leads the job from now on.
struct Led {
  std::uint32_t leader = 0;
};
/// The leading node -> its gate -> every gate -> its node: where members live that have left their first homes.
struct Rehomed {
  std::uint64_t version = 0;
  std::map<Member, std::uint32_t> homes;
};
struct KillOrder {  ///< injector -> node
  Member who;
};
struct GiveUp {  ///< main -> coordinator: it has taken too long; say who waits for whom, and end
  std::string why;
};

// -- checkpoints
struct BeginCheckpoint {  ///< coordinator -> checkpointer, with the Open of the same key
  Key key;
  std::uint32_t iteration = 0;  ///< the last one in the state
  std::uint64_t steps = 0, tokens = 0;
};
/// stage -> checkpointer: its state after the step. The stage leaves these buffers alone until they come back.
struct StateLoan {
  Key key;
  StageState state;
  Instant due{};
};
struct LoanOver {  ///< checkpointer or twin -> stage, stage -> twin
  Key key;
};
struct CheckpointOutcome {  ///< checkpointer -> coordinator
  Key key;
  std::uint32_t iteration = 0;
  std::string error;  ///< empty: it stands
};

// -- layers on their way (Life of a move)
/// From outside -> migrator: these layers to that stage, or this layout, once an iteration has opened.
struct Move {
  Iteration at;     ///< or any later one
  LayerRun layers;  ///< only without a layout
  StageId to;
  Layout layout;  ///< empty: as the layers say
  std::string why;
  WishId wish;
};
/// migrator -> coordinator: checked, and planned for.
struct MoveProposal {
  MoveOrder order;
  Layout from;                          ///< what it was made for
  std::shared_ptr<const JobPlan> plan;  ///< with the new layout
  std::string why;                      ///< with the numbers
  WishId wish;
};
/// coordinator -> the twin of the stage that has the layers: give the other stage's twin your copy of them,
/// between steps, and every gradient from the one of this key on.
struct LeadMove {
  Key key;
  MoveId move;
  MoveLane lane;
};
struct MovingState {  ///< the answer. Its giver leaves these buffers alone until LoanOver.
  Key key;
  MoveId move;
  MoveLane lane;
  HeldGroups state;
};
/// twin -> the twin that follows: the reduced gradient of the layers.
struct MovingGradients {
  Key key;
  MoveId move;
  MoveLane lane;
  std::map<GroupId, Tensor> gradients;
};
/// twin that follows -> its stage: the copy that the iteration began with, its gradient. Nobody writes there again.
struct LayersGiven {
  Key key;
  MoveId move;
  MoveLane lane;
  HeldGroups state;
  std::map<GroupId, Tensor> gradients;
};
/// coordinator -> the stage that has the layers, and the twin that follows.
struct AskVote {
  Key key;
  MoveId move;
  MoveLane lane;
};

// -- plans
/// coordinator -> planner, migrator, monitor: the iteration before is measured; this layout is in force.
struct IterationOpened {
  Key key;
  Layout layout;
  MoveId newest, under_way;  ///< the newest move that was begun; the one that is not over, 0: none
};
/// coordinator -> planner: the layout in force, and what was planned for it.
struct LayoutInForce {
  std::shared_ptr<const JobPlan> plan;
};
struct AskWindow {  ///< planner -> monitor
  Key key;
};
struct Window {  ///< monitor -> planner: what operators took since it asked last
  Key key;
  std::vector<StageProfile> stages;
};
struct PlanProposal {  ///< planner -> coordinator
  std::vector<PipelinePlan> replicas;
  Layout layout;  ///< for which it was made
};
/// coordinator -> stage, before the Open of the same key: run by this from now on.
struct NewPlan {
  Key key;
  Dispatch dispatch = Dispatch::follow;
  std::string order;                ///< its text
  std::vector<std::int64_t> paces;  ///< three numbers for each operator
  std::vector<std::int64_t> caps;   ///< F-B, B-W, F-W; -1: none
};

struct Stop {};     ///< main -> coordinator: finish the iteration, then end
struct Tick {};     ///< timer -> coordinator: look at the deadline
struct Explain {};  ///< coordinator -> stages: what are you waiting for?
struct Explanation {
  Place place;
  bool joined = false;  ///< it is initialised
  std::string text{};
  Duration busy{};                   ///< how long the operator on its device has been running; zero: none is
  Duration idle{};                   ///< otherwise: since it last did something
  std::vector<StageId> waits_for{};  ///< at most one: whose output its next operator lacks
};

/// coordinator -> node: a committed iteration.
struct IterationReport {
  Iteration iteration;
  double loss = 0;  ///< mean over tokens
  double gradient_norm = 0;
  double clip = 1;
  double learning_rate = 0;
  std::uint64_t tokens = 0;
  bool skipped = false;
  Duration time{};          ///< from Open to commit, in due times
  Duration wall{};          ///< the same by the clock, timers' lateness included
  Instant at{};             ///< of the commit, by the world's clock
  Layout layout;            ///< of the next iteration
  std::uint64_t moves = 0;  ///< of layers, so far
};

/// coordinator -> its gate -> every other gate, ahead of the Open of the same key: all that going on takes.
struct Minutes {
  Key key;
  Decision decision;
  bool last = false, restores = false, checkpoint = false;  ///< as in the Open
  Layout layout;
  MoveId newest_move;
  std::uint64_t steps = 0, tokens = 0;      ///< so far, before this iteration
  std::vector<Place> followers, stateless;  ///< Recovery
  bool decides = false;                     ///< the iteration before, in this way:
  IterationReport decided;
};
/// gate -> node, node -> gate: what of the job is known here? `view` tells the questions apart.
struct AskAccount {
  std::uint64_t view = 0;
};
struct Account {
  std::uint64_t view = 0;
  std::vector<Lost> missing;  ///< members of this node that are lost, or were rebuilt since the newest Open
  Rehomed homes;
  Minutes newest;
};
/// All accounts together: what a new leader begins with.
struct Succession {
  std::vector<Lost> missing;
  Rehomed homes;
  Minutes newest;  ///< key zero: nothing had been opened
  NodesGone nodes;
};

/// How a run ended.
enum class Ending : std::uint8_t { done, stopped, no_progress, fault, bug };

/// coordinator -> node: the job is over.
struct JobEnded {
  Ending ending = Ending::done;
  std::string reason{};
  std::vector<StageState> states{};       ///< done and stopped only
  std::uint32_t saved_iteration = 0;      ///< of the newest checkpoint that this run completed; 0: none
  std::string checkpoint_error{};         ///< why the last one that was wanted does not stand
  std::shared_ptr<const JobPlan> plan{};  ///< of the layout in force; none: that of the beginning
  std::uint64_t moves = 0;                ///< of layers, that were made
};
struct Profile {  ///< monitor -> node
  std::vector<StageProfile> stages;
};
/// stage -> recorder, stage -> monitor: what happened since the last one, in order, by the dozen: each message costs.
struct Events {
  std::vector<Event> events;
};
struct Timings {
  std::vector<Timing> timings;
};
/// link end -> monitor: the tensors that it has sent in one iteration, in order.
struct LinkTimings {
  Key key;
  ReplicaId replica;
  std::uint32_t boundary = 0;
  Direction direction = Direction::forward;
  Route route = Route::direct;  ///< by which they went
  RouteReading reading;
  std::vector<MessageStamps> messages;
};
struct SlowLink {  ///< or one that goes another way
  std::uint32_t boundary = 0;
  Direction direction = Direction::forward;
  Duration latency{}, occupancy{};  ///< more than when it was healthy, of the slowest replica
  bool rerouted = false;            ///< over delegates now, by an automatic policy
};
struct SlowLinks {  ///< monitor -> planner: how slow links are now, all that are
  std::vector<SlowLink> links;
  std::string why;  ///< what has been found
};
struct AskProfile {};
struct CloseLog {};  ///< node -> recorder
struct LogClosed {   ///< recorder -> node: everything is on disk
  std::uint64_t event_hash = 0, events = 0;
  std::string trace, log, error;  ///< paths, empty: not kept; the first error that the disk gave
  std::vector<TimedOperator> last_iteration;
  std::vector<std::string> violations;        ///< the first few
  std::uint64_t losses = 0, begun_again = 0;  ///< of stages and twins; iterations
};

}  // namespace stagecraft

#include "actors/wire/message_forms.hpp"  // belongs to the types above: CAF asks for it wherever they are sent
