// A stand-in: has the door of an actor that lives on another node, and hands what it takes to the gate. So nobody else
// knows where anybody lives.
//
// What it never does: answer. Messages with handles do not leave a node: those that introduce others are not needed
// where names stay, and dropped; any other is a bug.
#pragma once

#include <fmt/format.h>

#include "actors/cluster/gate.hpp"
#include "actors/doors.hpp"
#include "actors/wire/bulk_forms.hpp"
#include "planning/bug.hpp"

namespace stagecraft {

namespace cluster {

template <class Message, class... Messages>
constexpr std::uint8_t index_in() {
  std::uint8_t index = 0;
  const bool found = ((std::is_same_v<Message, Messages> ? true : (++index, false)) || ...);
  return found ? index : static_cast<std::uint8_t>(255);
}

template <class DoorType>
struct StandInState;
template <class... Signatures>
struct StandInState<caf::typed_actor<Signatures...>> {
  static inline const char* name = "stand-in";

  typename caf::typed_actor<Signatures...>::pointer self = nullptr;
  GateActor gate;
  ActorName who;

  template <class Message>
  void on(Message&& x) {
    using Plain = std::remove_cvref_t<Message>;
    if constexpr (crosses_nodes<Plain>) {
      Outgoing out{who,
                   index_in<Plain, typename MessageOf<Signatures>::Type...>(),
                   {},
                   {},
                   std::is_same_v<Plain, ParcelMessage> ? BulkLane::urgent : BulkLane::state};
      WireWriter write(out.bytes, &out.payloads);
      write(x);
      tell(self, gate, std::move(out));
    } else if constexpr (!std::is_same_v<Plain, NewStage> && !std::is_same_v<Plain, NewTwin>) {
      raise_bug(__FILE__, __LINE__, "crosses_nodes", fmt::format("{} got a message that stays here", to_text(who)));
    }
  }
};

template <class DoorType>
typename DoorType::behavior_type stand_in_behavior(
    typename DoorType::template stateful_pointer<StandInState<DoorType>> self, const GateActor& gate, ActorName who) {
  auto& s = self->state;
  s.self = self;
  s.gate = gate;
  s.who = who;
  return behavior_of(DoorType{}, s);
}

template <class DoorType>
class DoorwayOf;
template <class... Signatures>
class DoorwayOf<caf::typed_actor<Signatures...>> final : public Doorway {
 public:
  explicit DoorwayOf(caf::typed_actor<Signatures...> to) : to_(std::move(to)) {}

  void deliver(std::uint8_t type, const char* bytes, std::size_t size, std::vector<Tensor> payloads) override {
    using Send = void (*)(const caf::typed_actor<Signatures...>&, const char*, std::size_t, std::vector<Tensor>&);
    static constexpr Send sends[] = {&send<typename MessageOf<Signatures>::Type>...};
    if (type >= std::size(sends)) throw WireError(fmt::format("a message has type {}, of {}", type, std::size(sends)));
    sends[type](to_, bytes, size, payloads);
  }

 private:
  template <class Message>
  static void send(const caf::typed_actor<Signatures...>& to, const char* bytes, std::size_t size,
                   std::vector<Tensor>& payloads) {
    if constexpr (crosses_nodes<Message>) {
      Message message{};
      WireReader read(bytes, size, &payloads);
      read(message);
      read.finish();
      tell_from_outside(to, std::move(message));
    } else {
      throw WireError("a message came that no node sends");
    }
  }

  caf::typed_actor<Signatures...> to_;
};

}  // namespace cluster

template <class DoorType>
DoorType spawn_stand_in(caf::actor_system& system, GateActor gate, ActorName who) {
  return system.spawn(cluster::stand_in_behavior<DoorType>, std::move(gate), who);
}

template <class DoorType>
std::shared_ptr<Doorway> doorway_of(DoorType actor) {
  return std::make_shared<cluster::DoorwayOf<DoorType>>(std::move(actor));
}

}  // namespace stagecraft
