// From a topology file and the options of `plan` to what is to be priced. Main thread only.
#pragma once

#include <set>
#include <string>
#include <variant>
#include <vector>

#include "config/load_topology.hpp"
#include "planning/plan.hpp"
#include "tools/commands.hpp"

namespace stagecraft::tools {

/// A schedule that was named by an option; the name is empty for the file's own.
struct ScheduleChoice {
  std::string option;  ///< "--schedule" or "--compare", for messages
  std::string name;
};

/// One schedule of one file. The two requests are of the first replica and differ in the latencies of links alone.
struct PlanInput {
  Topology topology;
  PlanRequest assumed;  ///< what the planner believes
  PlanRequest real;
  std::vector<std::string> notes;  ///< stages that do not fit on their devices
};

/// Why there is none, a sentence each.
struct PlanProblems {
  std::vector<std::string> lines;
};

/// Reads the file once for every schedule. Warnings go to standard error, each of them once.
class PlanInputs {
 public:
  explicit PlanInputs(const PlanOptions& options) : options_(options) {}

  std::variant<PlanInput, PlanProblems> read(const ScheduleChoice& choice);

 private:
  struct Overrides;
  std::variant<Topology, PlanProblems> load(const Overrides& overrides);

  const PlanOptions& options_;
  std::set<std::string> said_;
};

}  // namespace stagecraft::tools
