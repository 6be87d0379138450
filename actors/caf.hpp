// The one place that knows which CAF we build against (0.17.6): doors, behaviours, sending.
//
// A message hands over what it carries: all that the sender did before it is seen by whoever handles it. CAF's
// mailboxes see to that with fences inside a library that ThreadSanitizer does not look into, so here the two ends tell
// it.
#pragma once

#include <caf/all.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <chrono>
#include <exception>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

namespace stagecraft {

/// The typed door of an actor: the messages it takes. Every message is one-way; answers are messages too.
template <class... Messages>
using Door = caf::typed_actor<caf::reacts_to<Messages>...>;

// Does nothing but under ThreadSanitizer.
namespace hand_over {
#ifdef __SANITIZE_THREAD__
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
inline void give(const caf::actor_control_block* to) { __tsan_release(const_cast<caf::actor_control_block*>(to)); }
inline void take(const caf::actor_control_block* by) { __tsan_acquire(const_cast<caf::actor_control_block*>(by)); }
#else
inline void give(const caf::actor_control_block*) {}
inline void take(const caf::actor_control_block*) {}
#endif
template <class To>
void give_to(const To& to) {
  give(caf::actor_cast<caf::actor_control_block*>(to));
}
// The handlers of one actor run one after the other, on whatever worker is free.
class Turn {
 public:
  explicit Turn(const caf::actor_control_block* actor) : actor_(actor) { take(actor_); }
  ~Turn() { give(actor_); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  const caf::actor_control_block* actor_;
};
}  // namespace hand_over

/// The message of one signature of a door.
template <class Signature>
struct MessageOf;
template <class Message>
struct MessageOf<caf::reacts_to<Message>> {
  using Type = Message;
};

/// Finds the handler of a message by its type, at one pointer comparison per message of the door. CAF's own behaviours
/// try one pattern after the other, and build an answer for each message, which no message here wants.
template <class State, class... Messages>
class DirectBehavior final : public caf::detail::behavior_impl {
 public:
  using Result = caf::match_case::result;
  using behavior_impl::invoke;

  explicit DirectBehavior(State& state) : state_(state) { begin_ = end_ = nullptr; }

  Result invoke(caf::detail::invoke_result_visitor&, caf::type_erased_tuple& tuple) override {
    const hand_over::Turn turn(state_.self->ctrl());  // before the first look at what the sender has written
    if (tuple.size() != 1) return caf::match_case::no_match;
    const std::type_info* type = tuple.type(0).second;
    for (const Row& row : rows_)
      if (row.type == type) return call(row, tuple);
    return caf::match_case::no_match;
  }

 private:
  struct Row {
    const std::type_info* type;
    void (*handle)(State&, void*);
  };
  template <class Message>
  static void handle(State& state, void* message) {
    state.on(std::move(*static_cast<Message*>(message)));
  }
  Result call(const Row& row, caf::type_erased_tuple& tuple) {
    caf::message own;  // others may still read a message that is shared
    if (tuple.shared()) own = caf::message::copy(tuple);
    try {
      row.handle(state_, own.empty() ? tuple.get_mutable(0) : own.get_mutable(0));
    } catch (const std::exception& e) {  // whoever watches it hears what it was
      state_.self->quit(caf::make_error(caf::sec::runtime_error, std::string(e.what())));
    }
    return caf::match_case::match;
  }

  static inline const Row rows_[] = {{&typeid(Messages), &handle<Messages>}...};
  State& state_;
};

/// The behaviour of an actor whose state has `self` and one `on(Message&&)` (or `on(const Message&)`) for every message
/// of its door.
template <class... Signatures, class State>
caf::typed_behavior<Signatures...> behavior_of(caf::typed_actor<Signatures...>, State& state) {
  using Behavior = caf::typed_behavior<Signatures...>;
  using Direct = DirectBehavior<State, typename MessageOf<Signatures>::Type...>;
  const caf::behavior::impl_ptr direct = caf::make_counted<Direct>(state);
  return Behavior(typename Behavior::unsafe_init{}, caf::behavior(direct));
}

/// Plain send. Never blocks, never fails; a message to a dead actor is dropped.
template <class Self, class To, class Message>
void tell(Self* self, const To& to, Message&& message) {
  hand_over::give_to(to);
  self->send(to, std::forward<Message>(message));
}

/// Send after a delay of the world's clock.
template <class Self, class To, class Message>
void tell_after(Self* self, std::chrono::nanoseconds delay, const To& to, Message&& message) {
  hand_over::give_to(to);
  self->delayed_send(to, delay, std::forward<Message>(message));
}

/// For senders that are no actor: completions, arrivals, the main thread.
template <class To, class Message>
void tell_from_outside(const To& to, Message&& message, std::chrono::nanoseconds delay = {}) {
  hand_over::give_to(to);
  if (delay.count() > 0) {
    caf::delayed_anon_send(to, delay, std::forward<Message>(message));
  } else {
    caf::anon_send(to, std::forward<Message>(message));
  }
}

/// True for messages that CAF could serialise; false for those that carry handles.
template <class Message>
inline constexpr bool has_wire_form = !caf::is_allowed_unsafe_message_type<Message>::value;

}  // namespace stagecraft
