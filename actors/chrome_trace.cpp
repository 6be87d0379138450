#include "actors/chrome_trace.hpp"

#include <nlohmann/json.hpp>
#include <set>

#include "planning/random.hpp"

namespace stagecraft {

namespace {

using Json = nlohmann::ordered_json;

double microseconds(Instant t) { return static_cast<double>(t.count()) / 1000.0; }

Json track(const Event& event) { return {{"pid", event.place->replica.value}, {"tid", event.place->stage.value}}; }

// Sent and arrived of one tensor share an id: who receives it, in which iteration.
std::uint64_t flow_id(const Event& event) {
  return keyed(event.place->replica.value, event.key.epoch.value, event.key.iteration.value, event.op->chunk.value,
               event.op->micro_batch.value, static_cast<std::uint64_t>(*event.direction)) >>
         12;
}

Json operator_event(const Event& event) {
  Json e = track(event);
  e["ph"] = "X";
  e["name"] = event.op ? to_text(*event.op) : event.text;
  e["cat"] = event.op ? std::string(1, letter(event.op->kind)) : "service";
  e["ts"] = microseconds(event.start);
  e["dur"] = microseconds(event.at - event.start);
  e["args"] = {{"iteration", event.key.iteration.value}, {"epoch", event.key.epoch.value}};
  return e;
}

Json flow_event(const Event& event) {
  Json e = track(event);
  const bool sent = event.kind == EventKind::sent;
  e["ph"] = sent ? "s" : "f";
  if (!sent) e["bp"] = "e";
  e["name"] = *event.direction == Direction::forward ? "activation" : "gradient";
  e["cat"] = "link";
  e["id"] = flow_id(event);
  e["ts"] = microseconds(event.at);
  return e;
}

Json name_event(std::string_view what, std::uint32_t pid, std::uint32_t tid, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", pid}, {"tid", tid}, {"args", {{"name", name}}}};
}

}  // namespace

std::string to_chrome_trace(std::span<const Event> events) {
  Json list = Json::array();
  std::set<Place> places;
  for (const Event& event : events) {
    if (!event.place) continue;
    if (event.kind == EventKind::ran) list.push_back(operator_event(event));
    if (event.kind == EventKind::sent || event.kind == EventKind::arrived) list.push_back(flow_event(event));
    places.insert(*event.place);
  }
  for (const Place p : places) {
    list.push_back(name_event("process_name", p.replica.value, 0, "replica " + std::to_string(p.replica.value)));
    list.push_back(name_event("thread_name", p.replica.value, p.stage.value, "stage " + std::to_string(p.stage.value)));
  }
  return Json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(list)}}.dump();
}

}  // namespace stagecraft
