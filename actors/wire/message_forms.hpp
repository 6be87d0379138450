// The wire forms of the messages in actors/messages.hpp, which includes this: of those without handles and tensors,
// member by member. The others are named at the end; what goes over a lane has its form in bulk_forms.hpp.
#pragma once

#include "actors/messages.hpp"

namespace stagecraft {

template <class Inspector, class Tag>
typename Inspector::result_type inspect(Inspector& f, Id<Tag>& x) {
  return f(x.value);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, ExactSum& x) {
  ExactSum::Limbs limbs = x.limbs();
  bool valid = x.valid();
  if constexpr (Inspector::reads_state) {
    return f(limbs[0], limbs[1], limbs[2], valid);
  } else {
    auto result = f(limbs[0], limbs[1], limbs[2], valid);
    x = ExactSum::from_limbs(limbs, valid);
    return result;
  }
}
#define STAGECRAFT_WIRE(type, ...)                                 \
  template <class Inspector>                                       \
  typename Inspector::result_type inspect(Inspector& f, type& x) { \
    return f(caf::meta::type_name(#type), __VA_ARGS__);            \
  }
#define STAGECRAFT_WIRE_EMPTY(type)                              \
  template <class Inspector>                                     \
  typename Inspector::result_type inspect(Inspector& f, type&) { \
    return f(caf::meta::type_name(#type));                       \
  }
STAGECRAFT_WIRE(Key, x.epoch, x.iteration)
STAGECRAFT_WIRE(Place, x.stage, x.replica)
STAGECRAFT_WIRE(Decision, x.kind, x.clip, x.step, x.tokens)
STAGECRAFT_WIRE(LayerRun, x.begin, x.end)
STAGECRAFT_WIRE(MoveLane, x.from, x.to, x.layers, x.replica)
STAGECRAFT_WIRE(MoveVote, x.kind, x.move, x.key, x.lane, x.digest)
STAGECRAFT_WIRE(Move, x.at, x.layers, x.to, x.layout, x.why, x.wish)
STAGECRAFT_WIRE(AnswerRow, x.who, x.what, x.number, x.age, x.iteration)
STAGECRAFT_WIRE(WishAnswer, x.fate, x.wish, x.text, x.iteration, x.layout, x.rows)
STAGECRAFT_WIRE(KeepCheckpoint, x.wish)
STAGECRAFT_WIRE(Pause, x.wish, x.who)
STAGECRAFT_WIRE(Resume, x.wish, x.who)
STAGECRAFT_WIRE(AskWaits, x.wish)
STAGECRAFT_WIRE(AskPlan, x.wish)
STAGECRAFT_WIRE(AskTop, x.wish)
STAGECRAFT_WIRE(ChangeSetting, x.wish, x.name, x.value, x.who)
STAGECRAFT_WIRE(AskEvents, x.wish, x.after, x.most, x.of, x.decisions)
STAGECRAFT_WIRE(AskVote, x.key, x.move, x.lane)
STAGECRAFT_WIRE(LeadMove, x.key, x.move, x.lane)
STAGECRAFT_WIRE(Open, x.key, x.decision, x.last, x.checkpoint, x.due, x.restores, x.layout, x.move)
STAGECRAFT_WIRE(IterationOpened, x.key, x.layout, x.newest, x.under_way)
STAGECRAFT_WIRE(AskWindow, x.key)
STAGECRAFT_WIRE(NewPlan, x.key, x.dispatch, x.order, x.paces, x.caps)
STAGECRAFT_WIRE(Joined, x.place)
STAGECRAFT_WIRE(IterationReady, x.key, x.place, x.square_sum, x.loss, x.tokens, x.due)
STAGECRAFT_WIRE(Announce, x.key, x.replica, x.due)
STAGECRAFT_WIRE(Prefetch, x.iteration)
STAGECRAFT_WIRE(Credit, x.key, x.direction, x.micro_batch, x.due, x.arrived, x.announced)
STAGECRAFT_WIRE(Announcement, x.key, x.to, x.direction, x.micro_batch, x.after, x.due)
STAGECRAFT_WIRE(Completion, x.ticket, x.started, x.ended, x.error, x.out_of_memory)
STAGECRAFT_WIRE(OperatorDone, x.completion)
STAGECRAFT_WIRE(InstantOver, x.key)
STAGECRAFT_WIRE(WakeUp, x.key, x.choice, x.due)
STAGECRAFT_WIRE(BeginCheckpoint, x.key, x.iteration, x.steps, x.tokens)
STAGECRAFT_WIRE(LoanOver, x.key)
STAGECRAFT_WIRE(CheckpointOutcome, x.key, x.iteration, x.error)
STAGECRAFT_WIRE_EMPTY(Stop)
STAGECRAFT_WIRE_EMPTY(Tick)
STAGECRAFT_WIRE_EMPTY(Explain)
STAGECRAFT_WIRE(Explanation, x.place, x.joined, x.text, x.busy, x.idle, x.waits_for)
STAGECRAFT_WIRE(Member, x.role, x.place)
STAGECRAFT_WIRE(TwinReady, x.key, x.place)
STAGECRAFT_WIRE(AskState, x.key)
STAGECRAFT_WIRE(Lost, x.who, x.why)
STAGECRAFT_WIRE(Replace, x.who)
STAGECRAFT_WIRE(Replaced, x.who)
STAGECRAFT_WIRE(FindCheckpoint, x.key)
STAGECRAFT_WIRE(NodeFailed, x.why)
STAGECRAFT_WIRE(NodeGone, x.node, x.why)
STAGECRAFT_WIRE(NodesGone, x.gone, x.left)
STAGECRAFT_WIRE(Led, x.leader)
STAGECRAFT_WIRE(Rehomed, x.version, x.homes)
STAGECRAFT_WIRE(KillOrder, x.who)
STAGECRAFT_WIRE(GiveUp, x.why)
STAGECRAFT_WIRE(IterationReport, x.iteration, x.loss, x.gradient_norm, x.clip, x.learning_rate, x.tokens, x.skipped,
                x.time, x.wall, x.at, x.layout, x.moves)
STAGECRAFT_WIRE(Minutes, x.key, x.decision, x.last, x.restores, x.checkpoint, x.layout, x.newest_move, x.steps,
                x.tokens, x.followers, x.stateless, x.decides, x.decided)
STAGECRAFT_WIRE(AskAccount, x.view)
STAGECRAFT_WIRE(Account, x.view, x.missing, x.homes, x.newest)
STAGECRAFT_WIRE_EMPTY(AskProfile)
STAGECRAFT_WIRE_EMPTY(CloseLog)

}  // namespace stagecraft

// Messages that carry handles: within one process only.
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::Tokens)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::TensorMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::ParcelMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::Subtrees)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::StageDone)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::Segments)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::ReduceOrder)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::Reduced)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::TiePart)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::TieOrder)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::Tied)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::ParameterParts)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::Happened)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::TwinGradients)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::StateGiven)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::CheckpointFound)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::Restore)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::StageReport)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::StateLoan)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::JobEnded)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::Profile)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::LogClosed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::Event)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::Events)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::Timings)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::LinkTimings)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::SlowLinks)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::Window)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::PlanProposal)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::MoveProposal)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::MovingState)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::MovingGradients)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::LayersGiven)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::LayoutInForce)
