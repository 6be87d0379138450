// The typed door of each actor: what it takes. And who talks to whom: the first message of an actor's life.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "actors/messages.hpp"
#include "actors/route_messages.hpp"

namespace stagecraft {

struct NewStage;
struct NewTwin;
using CoordinatorActor = Door<Joined, IterationReady, TwinReady, StageReport, CheckpointOutcome, CheckpointFound,
                              PlanProposal, MoveProposal, MoveVote, KeepCheckpoint, Pause, Resume, AskWaits, AskPlan,
                              Lost, Replaced, Stop, GiveUp, Tick, Explanation, NewStage, NewTwin>;
struct MigratorWiring;
using MigratorActor = Door<MigratorWiring, Move, IterationOpened, OperatorDone>;
struct PlannerWiring;
using PlannerActor = Door<PlannerWiring, IterationOpened, LayoutInForce, Window, SlowLinks, OperatorDone>;
struct CheckpointerWiring;
using CheckpointerActor = Door<CheckpointerWiring, BeginCheckpoint, StateLoan, FindCheckpoint, OperatorDone, NewStage>;
using LoaderActor = Door<Announce, Prefetch, NewStage>;
struct StageWiring;
using StageActor = Door<StageWiring, NewPlan, Restore, Open, Tokens, TensorMessage, Announcement, OperatorDone,
                        InstantOver, WakeUp, ReduceOrder, TieOrder, ParameterParts, AskState, StateGiven, LoanOver,
                        AskVote, LayersGiven, Explain, PlaceGiven, NewStage, NewTwin>;
struct TwinWiring;
using TwinActor = Door<TwinWiring, Restore, Open, TwinGradients, AskState, StateGiven, LoanOver, LeadMove, MovingState,
                       MovingGradients, AskVote, OperatorDone, NewStage, NewTwin>;
struct LinkWiring;
using LinkActor = Door<LinkWiring, TensorMessage, Announcement, ParcelMessage, Credit, AskPlace, LetGo, WatchLink,
                       NewRoute, NewStage>;
struct ReducerWiring;
using ReducerActor = Door<ReducerWiring, Subtrees, StageDone, Segments, Reduced, TiePart, Tied, NewStage, NewTwin>;
struct MonitorWiring;
using MonitorActor =
    Door<MonitorWiring, Timings, LinkTimings, IterationOpened, AskWindow, AskProfile, AskTop, ChangeSetting>;
using RecorderActor = Door<Event, Events, AskEvents, CloseLog>;
struct NodeWiring;
struct TakeOver;
using NodeActor = Door<NodeWiring, IterationReport, WishAnswer, JobEnded, Profile, LogClosed, Replace, NodeFailed,
                       NodesGone, Rehomed, Led, Minutes, AskAccount, TakeOver, KillOrder>;

struct NewStage {  ///< node -> everyone who talks to the stage of that place: it is another one now
  Place place;
  StageActor stage;
};
struct NewTwin {  ///< node -> everyone who talks to the twin of that place
  Place place;
  TwinActor twin;
};

/// Who a stage talks to. The first message of its life.
struct StageWiring {
  CoordinatorActor coordinator;
  LoaderActor loader;
  ReducerActor reducer;
  MonitorActor monitor;
  RecorderActor recorder;
  CheckpointerActor checkpointer;                 ///< none: no checkpoints are kept
  TwinActor twin;                                 ///< none: the job keeps no twins
  std::shared_ptr<const LoadedCheckpoint> start;  ///< what to continue; none: from the first parameters
  bool rebuilt = false;                           ///< in the place of one that was lost: its state is yet to come
  std::vector<StageActor> replicas;               ///< the same stage, by replica; itself included
  std::map<ChunkId, LinkActor> before, after;     ///< per hosted chunk: the link ends towards its neighbours

  const LinkActor& way_out(ChunkId chunk, Direction direction) const {
    return direction == Direction::forward ? after.at(chunk) : before.at(chunk);
  }
};
struct TwinWiring {
  CoordinatorActor coordinator;
  RecorderActor recorder;
  StageActor stage;                ///< whose state it copies
  std::vector<TwinActor> fellows;  ///< the twins of all stages of its replica, itself included
  std::shared_ptr<const LoadedCheckpoint> start;
  bool rebuilt = false;
};
struct CheckpointerWiring {
  CoordinatorActor coordinator;
  std::vector<StageActor> stages;
};
struct MonitorWiring {
  PlannerActor planner;  ///< none: the plan stays
  /// Of the links whose route may change, per boundary and direction: the sending ends, of all replicas.
  std::map<std::pair<std::uint32_t, Direction>, std::vector<LinkActor>> senders;
};
struct PlannerWiring {
  CoordinatorActor coordinator;
  MonitorActor monitor;
};
struct MigratorWiring {
  CoordinatorActor coordinator;
  NodeActor node;
};
struct LinkWiring {
  StageActor stage;  ///< whose end this is
  LinkActor peer;    ///< the other end
  MonitorActor monitor;
};
struct ReducerWiring {
  CoordinatorActor coordinator;
  StageActor stage;
  std::vector<ReducerActor> replicas;  ///< of the same stage, itself included
  ReducerActor tie_partner;            ///< the other end of tied embeddings, if another stage has it
  TwinActor twin;                      ///< none: the job keeps no twins
};

/// Told from outside by the board of faults, by people, and by its timer.
using InjectorActor = Door<Happened, Tick, InjectFault, HealFault>;

class Cast;
struct NodeWiring {
  std::shared_ptr<Cast> cast;  ///< everyone on this node
};
struct Job;
/// The driving thread -> node: it leads the job from now on.
struct TakeOver {
  std::shared_ptr<const Job> job;  ///< as the leaders of it see it
  Succession from;
};

}  // namespace stagecraft

// Handles stay within one process.
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::CheckpointerWiring)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::MonitorWiring)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::PlannerWiring)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::MigratorWiring)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::StageWiring)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::LinkWiring)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::ReducerWiring)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::NodeWiring)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::TakeOver)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::TwinWiring)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::NewStage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::NewTwin)
