#include "actors/chrome_trace.hpp"

#include <fmt/format.h>

#include "planning/chrome_trace.hpp"
#include "planning/random.hpp"

namespace stagecraft {

namespace {

// Sent and arrived of one tensor share an id: who receives it, in which iteration.
std::uint64_t flow_id(const Event& event) {
  return keyed(event.place->replica.value, event.key.epoch.value, event.key.iteration.value, event.op->chunk.value,
               event.op->micro_batch.value, static_cast<std::uint64_t>(*event.direction)) >>
         12;
}

}  // namespace

std::string to_chrome_trace(std::span<const Event> events) {
  ChromeTrace trace;
  for (const Event& event : events) {
    if (!event.place) continue;
    trace.visit(*event.place);
    if (event.kind == EventKind::ran)
      trace.ran(*event.place, event.op ? to_text(*event.op) : event.text,
                event.op ? std::string(1, letter(event.op->kind)) : "service", event.start, event.at,
                fmt::format(R"("iteration":{},"epoch":{})", event.key.iteration.value, event.key.epoch.value));
    if (event.kind == EventKind::sent) trace.sent(*event.place, *event.direction, flow_id(event), event.at);
    if (event.kind == EventKind::arrived) trace.arrived(*event.place, *event.direction, flow_id(event), event.at);
  }
  return trace.text();
}

}  // namespace stagecraft
