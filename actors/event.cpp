#include "actors/event.hpp"

#include <array>
#include <nlohmann/json.hpp>

#include "planning/random.hpp"

namespace stagecraft {

std::string_view name_of(EventKind kind) {
  static constexpr std::array<std::string_view, 11> names = {
      "joined", "opened", "ran", "sent", "arrived", "committed", "stopped", "resumed", "saved", "ended", "violation"};
  return names.at(static_cast<std::size_t>(kind));
}

std::string to_json_line(const Event& event) {
  nlohmann::ordered_json line;
  line["t_us"] = event.at.count() / 1000;
  line["event"] = name_of(event.kind);
  if (event.key.epoch.value > 0) line["epoch"] = event.key.epoch.value;
  if (event.key.iteration.value > 0) line["iteration"] = event.key.iteration.value;
  if (event.place) line["stage"] = event.place->stage.value;
  if (event.place) line["replica"] = event.place->replica.value;
  if (event.op) line["op"] = to_text(*event.op);
  if (event.op) line["mb"] = event.op->micro_batch.value;
  if (event.kind == EventKind::ran) line["start_us"] = event.start.count() / 1000;
  if (event.direction) line["direction"] = *event.direction == Direction::forward ? "forward" : "backward";
  if (!event.text.empty()) line["text"] = event.text;
  return line.dump() + "\n";
}

std::uint64_t hash_of(const Event& event) {
  const Place place = event.place.value_or(Place{});
  const Operator op = event.op.value_or(Operator{});
  return keyed(static_cast<std::uint64_t>(event.kind), event.at.count(), event.start.count(), event.place.has_value(),
               place.stage.value, place.replica.value, event.key.epoch.value, event.key.iteration.value,
               event.op.has_value(), static_cast<std::uint64_t>(op.kind), op.chunk.value, op.micro_batch.value,
               event.direction ? 1 + static_cast<std::uint64_t>(*event.direction) : 0, name_key(event.text));
}

}  // namespace stagecraft
