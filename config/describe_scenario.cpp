#include "config/describe_scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "config/yaml_text.hpp"

namespace stagecraft {
namespace {

namespace fs = std::filesystem;

// The keys of one map, in braces.
class Braces {
 public:
  Braces& add(std::string_view key, const std::string& value) {
    text_ += fmt::format("{} {}: {}", text_.empty() ? "" : ",", key, value);
    return *this;
  }
  template <class I>
  Braces& add(std::string_view key, const std::optional<I>& id) {
    return id ? add(key, std::to_string(id->value)) : *this;
  }
  bool empty() const { return text_.empty(); }
  std::string text() const { return "{" + text_ + " }"; }

 private:
  std::string text_;
};

std::string map_of(std::string_view key, const std::string& value) { return Braces().add(key, value).text(); }

std::string trigger(const EventPattern& pattern) {
  return Braces()
      .add("event", std::string(name_of(pattern.event)))
      .add("stage", pattern.stage)
      .add("replica", pattern.replica)
      .add("micro_batch", pattern.micro_batch)
      .add("iteration", pattern.iteration)
      .text();
}

void add_trigger(Braces& out, const Trigger& t) {
  switch (t.kind) {
    case Trigger::Kind::start:
      return;
    case Trigger::Kind::iteration:
      out.add("at", map_of("iteration", std::to_string(t.iteration.value)));
      return;
    case Trigger::Kind::time:
      out.add("at", map_of("time", exact(t.time)));
      return;
    case Trigger::Kind::event:
      out.add("when", trigger(t.event));
      return;
    case Trigger::Kind::drawn: {
      Braces every;
      every.add("mtbf", exact(t.time));
      if (t.at_most != usual_strikes) every.add("at_most", std::to_string(t.at_most));
      out.add("every", every.text());
    }
  }
}

void add_target(Braces& out, const FaultTarget& target) {
  Braces on;
  using enum FaultTarget::Kind;
  const std::string stage_number = std::to_string(target.stage.value);
  switch (target.kind) {
    case link:
      on.add("link", fmt::format("[{}, {}]", stage_number, target.other.value));
      if (target.direction) on.add("direction", *target.direction == Direction::forward ? "forward" : "backward");
      break;
    case stage:
    case twin:
      on.add(name_of(target.kind), stage_number);
      break;
    case nodes: {
      const auto& names = target.node_names;
      if (names.size() == 1) on.add("node", in_quotes(names[0]));
      if (names.size() == 2) on.add("nodes", fmt::format("[{}, {}]", in_quotes(names[0]), in_quotes(names[1])));
      break;
    }
    case disk:  // what their kinds strike where nothing is said
    case job:
      return;
  }
  out.add("on", on.add("replica", target.replica).text());
}

void add_arguments(Braces& out, const FaultSpec& f) {
  Braces with;
  if (f.mean.count() != 0) with.add("mean", exact(f.mean));
  if (f.constant.count() != 0) with.add("constant", exact(f.constant));
  if (f.factor != 1) with.add("factor", fmt::format("{}", f.factor));
  const bool required = f.kind == FaultKind::drop || f.kind == FaultKind::duplicate;
  if (f.probability != 1 || required) with.add("probability", fmt::format("{}", f.probability));
  if (f.offset.count() > 0) with.add("ahead", exact(f.offset));
  if (f.offset.count() < 0) with.add("behind", exact(-f.offset));
  if (f.operation != 1) with.add("operation", std::to_string(f.operation));
  if (!with.empty()) out.add("with", with.text());
}

std::string move_text(const MoveSpec& m) {
  Braces out;
  out.add("at", map_of("iteration", std::to_string(m.iteration.value)));
  if (!m.layout.empty()) return out.add("layout", to_text(m.layout)).text();
  const LayerRun l = m.layers;
  out.add("layers", l.size() == 1 ? std::to_string(l.begin) : fmt::format("{}-{}", l.begin, l.end - 1));
  return out.add("to", map_of("stage", std::to_string(m.to.value))).text();
}

std::string body_of(const Expectation& e) {
  using enum Expectation::Kind;
  if (e.kind == never) {
    std::vector<std::string_view> words;
    for (const Invariant invariant : e.never) words.push_back(name_of(invariant));
    return fmt::format("[{}]", fmt::join(words, ", "));
  }
  Braces out;
  if (!e.fault.empty()) out.add(e.after ? "after" : "during", in_quotes(e.fault));
  if (e.settle > 0) out.add("settle", std::to_string(e.settle));
  if (e.ratio) out.add("at_most", fmt::format("{}x", *e.ratio));
  if (e.within) out.add(e.kind == iteration_time ? "at_most" : "within", exact(*e.within));
  if (e.kind == loss) out.add("equals", "fault_free");
  if (e.tolerance > 0) out.add("tolerance", fmt::format("{}", e.tolerance));
  if (e.at_least > 0) out.add("at_least", std::to_string(e.at_least));
  return out.text();
}

// From the folder of the scenario's file. `..` has no way back, so what does not lead to the same path is absolute.
std::string topology_path(const Scenario& s) {
  const fs::path topology(s.topology), folder = fs::path(s.file).parent_path().lexically_normal();
  const fs::path there = topology.lexically_relative(folder);
  const bool leads_there = !there.empty() && (folder / there).lexically_normal() == topology;
  return leads_there ? there.string() : fs::absolute(topology).lexically_normal().string();
}

std::string head(const Scenario& s) {
  std::string out = fmt::format("version: 1\nname: {}\n", in_quotes(s.name));
  if (!s.shows.empty()) out += fmt::format("shows: {}\n", in_quotes(s.shows));
  out += fmt::format("topology: {}\n", in_quotes(topology_path(s)));
  if (!s.set.empty()) out += "set:\n";
  for (const std::string& text : s.set) out += fmt::format("  - {}\n", in_quotes(text));
  if (s.world != ScenarioWorld::virtual_clock) out += fmt::format("world: {}\n", name_of(s.world));
  if (s.first_seed != s.last_seed) out += fmt::format("seeds: {}..{}\n", s.first_seed, s.last_seed);
  if (s.first_seed == s.last_seed && s.first_seed != 1) out += fmt::format("seeds: {}\n", s.first_seed);
  if (s.deadline != usual_deadline(s.world)) out += fmt::format("deadline: {}\n", exact(s.deadline));
  return out;
}

// Characters that YAML does not allow in comments become blanks.
std::string as_comment(std::string text) {
  if (text.empty()) return text;
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c != '\n' && (static_cast<unsigned char>(c) < 0x20 || c == 0x7f); },
      ' ');
  std::string out = "# ";
  for (const char c : text) out += c == '\n' ? std::string("\n# ") : std::string(1, c);
  return out + "\n";
}

}  // namespace

std::string describe(const Scenario& s, const std::string& comment) {
  std::string out = as_comment(comment) + head(s);
  if (!s.faults.empty()) out += "faults:\n";
  for (const FaultSpec& f : s.faults) out += fmt::format("  - {}\n", describe(f));
  if (!s.moves.empty()) out += "moves:\n";
  for (const MoveSpec& m : s.moves) out += fmt::format("  - {}\n", move_text(m));
  if (!s.expect.empty()) out += "expect:\n";
  for (const Expectation& e : s.expect) out += fmt::format("  - {}\n", map_of(name_of(e.kind), body_of(e)));
  if (s.calm) {
    out += fmt::format("calm: {{ iteration: {}, progress: {} }}\n", s.calm->from.value,
                       map_of("within", exact(s.calm->within)));
  }
  return out;
}

std::string describe(const FaultSpec& f) {
  Braces out;
  out.add("id", in_quotes(f.id));
  add_trigger(out, f.trigger);
  out.add("do", std::string(name_of(f.kind)));
  add_target(out, f.on);
  add_arguments(out, f);
  if (f.iterations) out.add("for", map_of("iterations", std::to_string(*f.iterations)));
  if (f.time) out.add("for", map_of("time", exact(*f.time)));
  return out.text();
}

}  // namespace stagecraft
