#include "planning/chrome_trace.hpp"

#include <map>

#include <fmt/format.h>

#include "planning/random.hpp"

namespace stagecraft {

namespace {

// In microseconds, as the format wants it, exactly.
std::string microseconds(Duration d) {
  const std::int64_t ns = d.count(), whole = ns / 1000, rest = ns % 1000;
  if (rest == 0) return fmt::format("{}", whole);
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", whole < 0 ? -whole : whole, rest < 0 ? -rest : rest);
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string track(Place place) { return fmt::format(R"("pid":{},"tid":{})", place.replica.value, place.stage.value); }

std::string name_event(std::string_view what, Place place, const std::string& name) {
  return fmt::format(R"({{"ph":"M","name":"{}",{},"args":{{"name":{}}}}})", what, track(place), quoted(name));
}

}  // namespace

std::string& ChromeTrace::next() {
  if (!events_.empty()) events_ += ',';
  return events_;
}

void ChromeTrace::ran(Place place, std::string_view name, std::string_view category, Instant start, Instant end,
                      std::string_view arguments) {
  visit(place);
  next() += fmt::format(R"({{{},"ph":"X","name":{},"cat":{},"ts":{},"dur":{},"args":{{{}}}}})", track(place),
                        quoted(name), quoted(category), microseconds(start), microseconds(end - start), arguments);
}

void ChromeTrace::arrow(std::string_view phase, Place place, Direction direction, std::uint64_t id, Instant at) {
  visit(place);
  next() += fmt::format(R"({{{},{},"name":"{}","cat":"link","id":{},"ts":{}}})", track(place), phase,
                        direction == Direction::forward ? "activation" : "gradient", id, microseconds(at));
}
void ChromeTrace::sent(Place place, Direction direction, std::uint64_t id, Instant at) {
  arrow(R"("ph":"s")", place, direction, id, at);
}
void ChromeTrace::arrived(Place place, Direction direction, std::uint64_t id, Instant at) {
  arrow(R"("ph":"f","bp":"e")", place, direction, id, at);
}

std::string ChromeTrace::text() const {
  std::string all = events_;
  for (const Place place : places_) {
    if (!all.empty()) all += ',';
    all += name_event("process_name", {{0}, place.replica}, fmt::format("replica {}", place.replica.value)) + ',' +
           name_event("thread_name", place, fmt::format("stage {}", place.stage.value));
  }
  return fmt::format(R"({{"displayTimeUnit":"ms","traceEvents":[{}]}})", all);
}

std::string to_chrome_trace(const PipelineShape& shape, const SimulationResult& planned) {
  ChromeTrace trace;
  std::map<std::pair<ChunkId, MicroBatch>, const TimedOperator*> forwards, backwards;
  for (const TimedOperator& timed : planned.timeline) {
    const Operator& op = timed.op;
    trace.ran(timed.place, to_text(op), std::string(1, letter(op.kind)), timed.start, timed.end,
              fmt::format(R"("chunk":{},"micro_batch":{})", op.chunk.value, op.micro_batch.value));
    if (op.kind != OperatorKind::backward_weight)
      (op.kind == OperatorKind::forward ? forwards : backwards)[{op.chunk, op.micro_batch}] = &timed;
  }
  const auto arrows = [&](const auto& operators, Direction direction) {
    for (const auto& [key, from] : operators) {
      const auto& [chunk, micro_batch] = key;
      if (direction == Direction::backward && chunk.value == 0) continue;
      const ChunkId to{direction == Direction::forward ? chunk.value + 1 : chunk.value - 1};
      const auto taker = operators.find({to, micro_batch});
      if (taker == operators.end() || shape.stage_of(chunk) == shape.stage_of(to)) continue;
      const std::uint64_t id = keyed(to.value, micro_batch.value, static_cast<std::uint64_t>(direction)) >> 12;
      trace.sent(from->place, direction, id, from->end);
      trace.arrived(taker->second->place, direction, id, taker->second->start);
    }
  };
  arrows(forwards, Direction::forward);
  arrows(backwards, Direction::backward);
  return trace.text();
}

}  // namespace stagecraft
