// The one place that knows which CAF we build against (0.17.6): doors, sending, deadlines, serialising.
#pragma once

#include <caf/all.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <chrono>
#include <type_traits>
#include <utility>
#include <vector>

namespace stagecraft {

/// The typed door of an actor: the messages it takes. Every message is one-way; answers are messages too.
template <class... Messages>
using Door = caf::typed_actor<caf::reacts_to<Messages>...>;

/// Plain send. Never blocks, never fails; a message to a dead actor is dropped.
template <class Self, class To, class Message>
void tell(Self* self, const To& to, Message&& message) {
  self->send(to, std::forward<Message>(message));
}

/// Send after a delay of the world's clock.
template <class Self, class To, class Message>
void tell_after(Self* self, std::chrono::nanoseconds delay, const To& to, Message&& message) {
  self->delayed_send(to, delay, std::forward<Message>(message));
}

/// For senders that are no actor: completions, arrivals, the main thread.
template <class To, class Message>
void tell_from_outside(const To& to, Message&& message, std::chrono::nanoseconds delay = {}) {
  if (delay.count() > 0) {
    caf::delayed_anon_send(to, delay, std::forward<Message>(message));
  } else {
    caf::anon_send(to, std::forward<Message>(message));
  }
}

/// True for messages that have a wire form; false for those that carry handles and stay within a process.
template <class Message>
inline constexpr bool has_wire_form = !caf::is_allowed_unsafe_message_type<Message>::value;

template <class Message>
std::vector<char> to_bytes(caf::actor_system& system, Message& message) {
  std::vector<char> bytes;
  caf::binary_serializer sink{system, bytes};
  if (auto error = sink(message)) throw std::runtime_error("cannot serialise a message: " + caf::to_string(error));
  return bytes;
}

template <class Message>
Message from_bytes(caf::actor_system& system, const std::vector<char>& bytes) {
  Message message;
  caf::binary_deserializer source{system, bytes};
  if (auto error = source(message)) throw std::runtime_error("cannot read a message: " + caf::to_string(error));
  return message;
}

}  // namespace stagecraft
