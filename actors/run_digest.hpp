// What a finished run holds, as two hashes, and whether all copies agree. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "actors/job.hpp"
#include "actors/messages.hpp"

namespace stagecraft {

struct RunDigest {
  std::string weights, moments;         ///< SHA-256 over all groups in model order, tied tables once
  std::vector<std::string> violations;  ///< replicas or tied tables that differ
};

RunDigest digest_of(const Job& job, const std::vector<StageState>& states);

}  // namespace stagecraft
