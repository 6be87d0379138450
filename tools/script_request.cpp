#include "tools/script_request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <utility>

#include "tools/open_topology.hpp"
#include "tools/output.hpp"
#include "transport/real_disk.hpp"

namespace stagecraft::tools {

const std::vector<std::string> script_scenario_keys{"faults", "moves", "expect", "calm", "deadline"};

namespace {

std::string kind_text(const ScriptValue& value) {
  if (value.is_string()) return "the text " + stagecraft::quoted(value.get<std::string>());
  if (value.is_array()) return value.empty() ? "an empty table" : "a list";
  if (value.is_object()) return "a table of names";
  return value.dump();
}

// A value as YAML in one line. Words stay plain, so that a number in quotes of Lua is as good as one without.
std::string flow_yaml(const ScriptValue& value) {
  std::vector<std::string> parts;
  if (value.is_array()) {
    for (const ScriptValue& item : value) parts.push_back(flow_yaml(item));
    return fmt::format("[{}]", fmt::join(parts, ", "));
  }
  if (value.is_object()) {
    for (const auto& [key, item] : value.items()) parts.push_back(fmt::format("{}: {}", key, flow_yaml(item)));
    return fmt::format("{{ {} }}", fmt::join(parts, ", "));
  }
  if (value.is_number_float()) {  // 60 / 2 is 30.0 in Lua, and means 30
    const auto number = value.get<double>();
    if (number == std::floor(number) && std::abs(number) < 1e15)
      return std::to_string(static_cast<std::int64_t>(number));
  }
  if (!value.is_string()) return value.dump();
  const auto text = value.get<std::string>();
  const bool is_word = !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '/' || c == '-';
  });
  return is_word && std::isalnum(static_cast<unsigned char>(text.front())) != 0 ? text : value.dump();
}

// The text, two blanks in, whatever it was in before.
std::string indented(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t margin = std::string::npos;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    margin = std::min(margin, line.find_first_not_of(' '));
    lines.push_back(std::move(line));
  }
  std::string out;
  for (const std::string& line : lines) out += "  " + line.substr(std::min(margin, line.size())) + "\n";
  return out;
}

std::string line_of_text(const std::string& text, std::uint32_t number) {
  std::istringstream lines(text);
  std::string line;
  for (std::uint32_t i = 0; i < number && std::getline(lines, line); ++i) continue;
  return line;
}

// Says warnings and notes, each once. The errors, in lines; empty: there is none.
std::string errors_among(ScriptSession& session, const std::vector<Diagnostic>& diagnostics) {
  std::vector<std::string> errors;
  for (const Diagnostic& d : diagnostics) {
    if (d.severity == Severity::error)
      errors.push_back(to_text(d));
    else if (session.said.insert(to_text(d)).second)
      complain("{}\n", to_text(d));
  }
  return fmt::format("{}", fmt::join(errors, "\n"));
}

}  // namespace

ScriptRequest::ScriptRequest(std::string call, const std::vector<ScriptValue>& arguments,
                             const std::vector<std::string>& known)
    : call_(std::move(call)) {
  if (arguments.size() != 1 || !arguments.front().is_object())
    throw ScriptError(fmt::format("{}: expected one table, such as {}{{file = \"examples/tiny.yaml\"}}, got {}", call_,
                                  call_, arguments.empty() ? std::string("nothing") : kind_text(arguments.front())));
  table_ = arguments.front();
  for (const auto& [key, value] : table_.items())
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      const auto near = closest(key, known);
      throw ScriptError(fmt::format("{}: expected one of {}; got the unknown entry {}{}", call_, fmt::join(known, ", "),
                                    stagecraft::quoted(key),
                                    near ? fmt::format("; did you mean '{}'?", *near) : std::string()));
    }
}

void ScriptRequest::refuse(const std::string& key, const std::string& what) const {
  throw ScriptError(fmt::format("{}: {}: {}", call_, key, what));
}

ScriptValue ScriptRequest::value(const std::string& key) const { return has(key) ? table_.at(key) : ScriptValue(); }

std::string ScriptRequest::text(const std::string& key) const {
  if (!has(key)) return {};
  if (!table_.at(key).is_string()) refuse(key, "expected a text, got " + kind_text(table_.at(key)));
  return table_.at(key).get<std::string>();
}

std::optional<std::uint64_t> ScriptRequest::number(const std::string& key) const {
  if (!has(key)) return std::nullopt;
  const ScriptValue& value = table_.at(key);
  if (value.is_number_integer() && value.get<std::int64_t>() >= 0)
    return static_cast<std::uint64_t>(value.get<std::int64_t>());
  constexpr double most_exact = 9007199254740992;  // 2^53
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    if (number >= 0 && number <= most_exact && number == std::floor(number)) return static_cast<std::uint64_t>(number);
  }
  refuse(key, "expected a whole number, 0 or more, got " + kind_text(value));
}

std::vector<std::string> ScriptRequest::texts(const std::string& key) const {
  std::vector<std::string> list;
  if (!has(key)) return list;
  const std::string expected = "expected a list of texts such as {\"pipeline.dispatch=follow\"}, got ";
  if (!table_.at(key).is_array()) refuse(key, expected + kind_text(table_.at(key)));
  for (const ScriptValue& item : table_.at(key)) {
    if (!item.is_string()) refuse(key, expected + kind_text(item) + " in it");
    list.push_back(item.get<std::string>());
  }
  return list;
}

Topology script_topology(ScriptSession& session, const ScriptRequest& request) {
  const std::string file = request.text("file");
  if (file.empty()) request.refuse("file", "expected the path of a topology, such as \"examples/tiny.yaml\"");
  std::vector<std::string> set = request.texts("set");
  if (const auto iterations = request.number("iterations"))
    set.push_back(fmt::format("job.iterations={}", *iterations));
  set.insert(set.end(), session.options.file.set.begin(), session.options.file.set.end());
  RealDisk disk;
  const auto text = disk.read(file);
  if (!text) throw ScriptError(text.error().text());
  LoadResult loaded = validate_topology(file, text.value(), set);
  const std::string errors = errors_among(session, loaded.diagnostics);
  if (!loaded.topology) throw ScriptError(errors);
  return std::move(*loaded.topology);
}

std::string script_scenario_text(const ScriptRequest& request, std::string_view world) {
  std::string entries, by_hand;
  for (const ScriptValue& item : request.value(script_by_hand)) by_hand += fmt::format("  - {}\n", flow_yaml(item));
  if (!by_hand.empty() && !request.has("faults")) entries = "faults:\n" + by_hand;
  for (const std::string& key : script_scenario_keys) {
    if (!request.has(key)) continue;
    const ScriptValue value = request.value(key);
    if (value.is_string() && key != "deadline") {
      entries += fmt::format("{}:\n{}", key, indented(value.get<std::string>()));
    } else if (value.is_array()) {
      entries += key + ":" + (value.empty() ? " []\n" : "\n");
      for (const ScriptValue& item : value) entries += fmt::format("  - {}\n", flow_yaml(item));
    } else {
      entries += fmt::format("{}: {}\n", key, flow_yaml(value));
    }
    if (key == "faults") entries += by_hand;
  }
  return entries.empty()
             ? entries
             : fmt::format("version: 1\nname: script\ntopology: of the script\nworld: {}\n{}", world, entries);
}

Scenario script_scenario(ScriptSession& session, const ScriptRequest& request, const Topology& topology,
                         const std::string& text) {
  const std::filesystem::path script = session.options.file.file;
  const std::string name = "(scenario of " + script.filename().string() + ")";
  const auto check = [&](const std::vector<Diagnostic>& diagnostics) {
    std::string errors = errors_among(session, diagnostics);
    if (errors.empty()) return;
    for (const Diagnostic& d : diagnostics)
      if (d.severity == Severity::error && d.at.line > 0)
        errors += fmt::format("\n  its line {}: {}", d.at.line, line_of_text(text, d.at.line));
    throw ScriptError(errors);
  };
  ScenarioResult loaded = load_scenario(name, text);
  check(loaded.diagnostics);
  Scenario scenario = std::move(*loaded.scenario);
  scenario.topology = request.text("file");
  scenario.name = script.stem().string();
  check(check_against(scenario, topology));
  return scenario;
}

}  // namespace stagecraft::tools
