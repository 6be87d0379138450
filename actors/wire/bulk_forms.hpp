// The wire forms of messages that CAF must not serialise, because they hold tensors or are too many: between nodes they
// go through the gate (actors/cluster/gate.hpp), tensors beside their bytes.
#pragma once

#include "actors/messages.hpp"
#include "actors/wire/archive.hpp"

namespace stagecraft {

#define STAGECRAFT_BULK(type, ...) \
  template <class Archive>         \
  bool bulk(Archive& f, type& x) { \
    return f(__VA_ARGS__);         \
  }
STAGECRAFT_BULK(Packing, x.starts)
STAGECRAFT_BULK(TokenBatch, x.iteration, x.micro_batch, x.packing, x.inputs, x.targets)
STAGECRAFT_BULK(Tokens, x.key, x.chunk, x.batch, x.due)
STAGECRAFT_BULK(Parcel, x.header, x.payload, x.due)
STAGECRAFT_BULK(ParcelMessage, x.parcel)
STAGECRAFT_BULK(Range, x.begin, x.end)
STAGECRAFT_BULK(Segment, x.shards, x.value)
STAGECRAFT_BULK(Segments, x.key, x.group, x.from, x.segments, x.due)
STAGECRAFT_BULK(TiePart, x.key, x.value, x.due)
STAGECRAFT_BULK(ParameterParts, x.key, x.from, x.parts, x.due)
STAGECRAFT_BULK(TwinGradients, x.key, x.gradients, x.due)
STAGECRAFT_BULK(Bytes, x.value)
STAGECRAFT_BULK(StageState, x.place, x.parameters, x.first_moments, x.second_moments, x.peak, x.overdrafts)
STAGECRAFT_BULK(StateGiven, x.key, x.state, x.due)
STAGECRAFT_BULK(StateLoan, x.key, x.state, x.due)
STAGECRAFT_BULK(StageReport, x.key, x.state)
STAGECRAFT_BULK(HeldGroups, x.parameters, x.first_moments, x.second_moments)
STAGECRAFT_BULK(MovingState, x.key, x.move, x.lane, x.state)
STAGECRAFT_BULK(MovingGradients, x.key, x.move, x.lane, x.gradients)
STAGECRAFT_BULK(LayersGiven, x.key, x.move, x.lane, x.state, x.gradients)
STAGECRAFT_BULK(Operator, x.kind, x.chunk, x.micro_batch)
STAGECRAFT_BULK(Event, x.kind, x.at, x.start, x.place, x.key, x.op, x.direction, x.text)
STAGECRAFT_BULK(Events, x.events)
STAGECRAFT_BULK(Timing, x.place, x.key, x.kind, x.time)
STAGECRAFT_BULK(AnnouncementStamps, x.sent, x.arrived)
STAGECRAFT_BULK(MessageStamps, x.handed_over, x.arrived, x.round_trip, x.bytes, x.announcement)
STAGECRAFT_BULK(RouteReading, x.held_up, x.round_trip)
STAGECRAFT_BULK(LinkTimings, x.key, x.replica, x.boundary, x.direction, x.route, x.reading, x.messages)
STAGECRAFT_BULK(Timings, x.timings)

/// Floats of the host go as payloads too.
template <class Archive>
bool bulk(Archive& f, GroupValues& x) {
  const auto arena = Arena::make("values", {});
  for (std::vector<float>* values : {&x.parameters, &x.first_moments, &x.second_moments}) {
    Tensor tensor;
    if constexpr (Archive::reads_state) {
      if (!values->empty()) {
        tensor = Tensor(*arena, values->size());
        std::copy(values->begin(), values->end(), tensor.data());
      }
      f(tensor);
    } else {
      f(tensor);
      values->clear();
      if (!tensor.empty()) values->assign(tensor.span().begin(), tensor.span().end());
    }
  }
  return true;
}
/// The state alone: it is all that a stage takes.
STAGECRAFT_BULK(LoadedCheckpoint, x.state)
STAGECRAFT_BULK(Restore, x.key, x.from)

/// True for messages that may go to another node.
template <class Message>
inline constexpr bool crosses_nodes = has_wire_form<Message> || wire::Bulk<WireWriter, Message>;

}  // namespace stagecraft
