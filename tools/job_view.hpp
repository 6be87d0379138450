// A running job as JSON: what `status`, `list` and `get` show. On the thread that drives the job.
#pragma once

#include <nlohmann/json.hpp>

#include "actors/running_job.hpp"

namespace stagecraft::tools {

/// Since the newest iteration was committed; none is: since this process drives the job.
Duration since_progress(const RunningJob& job);
/// An object with everything.
nlohmann::ordered_json status_of(const RunningJob& job);
/// Lists of flat objects; each has the same keys in the same order.
nlohmann::ordered_json stages_of(const RunningJob& job);
nlohmann::ordered_json nodes_of(const RunningJob& job);
nlohmann::ordered_json links_of(const RunningJob& job);
nlohmann::ordered_json devices_of(const RunningJob& job);
/// Of this process.
nlohmann::ordered_json actors_of(const RunningJob& job);
/// Those of its scenario, and those that struck by hand.
nlohmann::ordered_json faults_of(const RunningJob& job);

}  // namespace stagecraft::tools
