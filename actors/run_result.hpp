// What a run leaves, filled in by whoever leads the job at its end.
#pragma once

#include "actors/node.hpp"
#include "actors/runtime.hpp"

namespace stagecraft {

/// `job`: as its leaders see it.
void fill_end(const Job& job, Outbox::Ended& end, RunResult& result);

/// A job that went back to a checkpoint tells of some iterations again.
void add_report(std::vector<IterationReport>& iterations, const IterationReport& report);

}  // namespace stagecraft
