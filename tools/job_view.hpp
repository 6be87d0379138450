// A running job as JSON: what `status`, `list` and `get` show. On the thread that drives the job.
#pragma once

#include <nlohmann/json.hpp>

#include "actors/running_job.hpp"

namespace stagecraft::tools {

/// An object with everything.
nlohmann::ordered_json status_of(const RunningJob& job);
/// Lists of flat objects; each has the same keys in the same order.
nlohmann::ordered_json stages_of(const RunningJob& job);
nlohmann::ordered_json nodes_of(const RunningJob& job);
nlohmann::ordered_json links_of(const RunningJob& job);
nlohmann::ordered_json devices_of(const RunningJob& job);

}  // namespace stagecraft::tools
