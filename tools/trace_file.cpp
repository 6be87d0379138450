#include "tools/trace_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "config/diagnostics.hpp"
#include "transport/real_disk.hpp"

namespace stagecraft::tools {

namespace {

using nlohmann::json;

// A run keeps its last 50,000 events for the trace: 25 MB at most.
constexpr std::uintmax_t most_bytes = 256U << 20;
constexpr double latest_us = 1e14;  // some three years
constexpr const char* where_from = "`run`, `sim --trace` and `plan --trace` write traces that can be read here";

// What is wrong with one event.
struct Foreign {
  std::string why;
};

[[noreturn]] void refuse(const json& event, std::string_view expected) {
  constexpr std::size_t shown = 60;
  std::string got = event.dump(-1, ' ', true, json::error_handler_t::replace);
  if (got.size() > shown) got = got.substr(0, shown) + "...";
  throw Foreign{fmt::format("expected {}, got {}", expected, printable(got))};
}

std::uint32_t whole_number(const json& event, const char* key) {
  const auto it = event.find(key);
  if (it == event.end() || !it->is_number_unsigned() || it->get<std::uint64_t>() > UINT32_MAX)
    refuse(event, fmt::format("a whole number below 2^32 as '{}'", key));
  return it->get<std::uint32_t>();
}

Duration microseconds_in(const json& event, const char* key) {
  const auto it = event.find(key);
  const double us = it != event.end() && it->is_number() ? it->get<double>() : -1;
  if (!(us >= 0 && us <= latest_us)) refuse(event, fmt::format("microseconds from 0 to 1e14 as '{}'", key));
  return Duration(std::llround(us * 1e3));
}

std::string text_in(const json& event, const char* key) {
  const auto it = event.find(key);
  if (it == event.end() || !it->is_string()) refuse(event, fmt::format("a text as '{}'", key));
  return it->get<std::string>();
}

// In a trace a process is a replica, and a thread a stage.
Place track_of(const json& event) { return {{whole_number(event, "tid")}, {whole_number(event, "pid")}}; }

TraceContent::Ran ran_of(const json& event) {
  TraceContent::Ran ran{track_of(event), std::nullopt, {}, std::nullopt, microseconds_in(event, "ts"), {}};
  ran.end = ran.start + microseconds_in(event, "dur");
  const std::string name = text_in(event, "name"), category = text_in(event, "cat");
  const auto op = parse_operator(name);
  const bool is_service = category == "service" && !op && !name.empty();
  if (!is_service && (!op || category != std::string(1, letter(op->kind))))
    refuse(event, "an operator such as 0F3 with its letter as 'cat', or a service");
  if (op) ran.kind = op->kind;
  if (!op) ran.service = name;
  const auto arguments = event.find("args");
  if (arguments != event.end() && arguments->is_object() && arguments->contains("iteration"))
    ran.iteration = Iteration{whole_number(*arguments, "iteration")};
  return ran;
}

TraceContent::ArrowEnd end_of(const json& event, bool arrives) {
  const auto id = event.find("id");
  if (id == event.end() || !id->is_number_unsigned()) refuse(event, "a whole number as 'id'");
  if (text_in(event, "cat") != "link") refuse(event, "'link' as 'cat'");
  return {track_of(event), id->get<std::uint64_t>(), arrives, microseconds_in(event, "ts")};
}

// Takes events while the file is parsed, so that it is never in memory as a whole tree.
class TraceEvents {
 public:
  /// Of the parser, for each thing that has been read; whether it is to be kept.
  bool operator()(int depth, json::parse_event_t what, json& parsed) {
    if (what == json::parse_event_t::key && depth == 1) key_ = parsed.get<std::string>();
    if (key_ != "traceEvents") return true;
    if (what == json::parse_event_t::array_start && depth == 1) found_ = true;
    const bool is_event = what == json::parse_event_t::object_end && depth == 2 && found_;
    if (is_event) take(parsed);
    return !is_event;
  }

  bool found() const { return found_; }
  /// How many were taken.
  std::uint64_t count() const { return count_; }
  TraceContent content;

 private:
  void take(const json& event) {
    ++count_;
    const std::string phase = text_in(event, "ph");
    if (phase == "X") {
      content.ran.push_back(ran_of(event));
    } else if (phase == "s" || phase == "f") {
      content.ends.push_back(end_of(event, phase == "f"));
    } else if (phase != "M") {
      refuse(event, "X, s, f or M as 'ph'");
    }
  }

  std::string key_;
  bool found_ = false;
  std::uint64_t count_ = 0;
};

// Something that can be read, and not too much of it; else what it is.
std::optional<std::string> check_file(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return std::nullopt;  // reading it says why
  if (!fs::is_regular_file(status))
    return "expected a file, got a folder or a device; a run's is <its folder>/trace.json";
  const std::uintmax_t size = fs::file_size(path, error);
  if (error || size <= most_bytes) return std::nullopt;
  return fmt::format(
      "it has {}, and a trace of ours has at most some 25 MiB: nothing above {} is read; is it another file?",
      format(Bytes{size}), format(Bytes{most_bytes}));
}

std::string no_json(const json::parse_error& problem, std::size_t size) {
  if (size == 0) return "it is empty: is the job still running? the trace is written when it ends";
  if (problem.byte >= size)
    return fmt::format("it breaks off at byte {}: was it cut, the disk full, or is the job still writing it?", size);
  return fmt::format("it is no JSON at byte {} of {}; {}", problem.byte, size, where_from);
}

}  // namespace

std::variant<TraceContent, NoTrace> read_trace(const std::string& path) {
  const auto no = [&](const std::string& why) { return NoTrace{fmt::format("'{}': {}", path, why)}; };
  if (const auto wrong = check_file(path)) return no(*wrong);
  const auto text = RealDisk().read(path);
  if (!text) return NoTrace{text.error().text()};
  TraceEvents events;
  try {
    const json rest = json::parse(
        text.value(), [&](int depth, json::parse_event_t what, json& parsed) { return events(depth, what, parsed); });
    if (!rest.is_object() || !events.found())
      return no(fmt::format("it is JSON, but no trace: expected an object with a list 'traceEvents'; {}", where_from));
  } catch (const json::parse_error& problem) {
    return no(no_json(problem, text.value().size()));
  } catch (const json::exception& problem) {
    return no(fmt::format("{}; {}", problem.what(), where_from));
  } catch (const Foreign& problem) {
    return no(fmt::format("event {} of traceEvents is none of stagecraft's: {}; {}", events.count(), problem.why,
                          where_from));
  }
  if (events.content.ran.empty())
    return no(fmt::format("none of its {} events says that something ran: did the job end before its first iteration?",
                          events.count()));
  return std::move(events.content);
}

}  // namespace stagecraft::tools
