// The table by which a script asks for a job: its entries one by one, and then the topology, and the scenario where
// there are faults, by the loaders that the other verbs use. Main thread only.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/load_scenario.hpp"
#include "tools/script_runs.hpp"

namespace stagecraft::tools {

/// Reads one entry after the other; what is wrong is a ScriptError that names the call, the entry, what was expected
/// and what was got.
class ScriptRequest {
 public:
  /// `arguments`: of the call, one table. Entries that are not `known` are refused.
  ScriptRequest(std::string call, const std::vector<ScriptValue>& arguments, const std::vector<std::string>& known);

  bool has(const std::string& key) const { return table_.contains(key); }
  std::string text(const std::string& key) const;
  std::optional<std::uint64_t> number(const std::string& key) const;
  std::vector<std::string> texts(const std::string& key) const;
  /// As it is; null: it is not there.
  ScriptValue value(const std::string& key) const;
  [[noreturn]] void refuse(const std::string& key, const std::string& what) const;

 private:
  std::string call_;
  ScriptValue table_;
};

/// The entries that make a job a scenario.
extern const std::vector<std::string> script_scenario_keys;
/// The entry with a list of faults that the script makes strike itself: they come behind the others.
inline constexpr const char* script_by_hand = "by_hand";

/// `file` with `set` and `iterations`, and the --set of the command line after those.
Topology script_topology(ScriptSession& session, const ScriptRequest& request);

/// The text of a scenario file with these entries, each a text of YAML or a value; empty: none of them is there.
std::string script_scenario_text(const ScriptRequest& request, std::string_view world);

/// The scenario of the entries on this topology, checked against it.
Scenario script_scenario(ScriptSession& session, const ScriptRequest& request, const Topology& topology,
                         const std::string& text);

}  // namespace stagecraft::tools
