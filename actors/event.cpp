#include "actors/event.hpp"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <nlohmann/json.hpp>

#include "planning/random.hpp"

namespace stagecraft {

std::string_view name_of(EventKind kind) {
  static constexpr std::array<std::string_view, 22> names = {
      "joined",    "opened",  "ran",       "sent",     "arrived", "committed", "stopped",     "resumed",
      "saved",     "planned", "injected",  "lost",     "moved",   "migrated",  "begun_again", "ended",
      "violation", "led",     "straggler", "rerouted", "paused",  "set"};
  return names.at(static_cast<std::size_t>(kind));
}

// By hand, because a run writes hundreds of these per iteration; only free text needs a library's care.
void append_json_line(std::string& out, const Event& event) {
  const auto to = std::back_inserter(out);
  fmt::format_to(to, R"({{"t_us":{},"event":"{}")", event.at.count() / 1000, name_of(event.kind));
  if (event.key.epoch.value > 0) fmt::format_to(to, R"(,"epoch":{})", event.key.epoch.value);
  if (event.key.iteration.value > 0) fmt::format_to(to, R"(,"iteration":{})", event.key.iteration.value);
  if (event.place)
    fmt::format_to(to, R"(,"stage":{},"replica":{})", event.place->stage.value, event.place->replica.value);
  if (event.op) fmt::format_to(to, R"(,"op":"{}","micro_batch":{})", to_text(*event.op), event.op->micro_batch.value);
  if (event.kind == EventKind::ran) fmt::format_to(to, R"(,"start_us":{})", event.start.count() / 1000);
  if (event.direction)
    out += *event.direction == Direction::forward ? R"(,"direction":"forward")" : R"(,"direction":"backward")";
  if (!event.text.empty()) out += R"(,"text":)" + nlohmann::json(event.text).dump();
  out += "}\n";
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
