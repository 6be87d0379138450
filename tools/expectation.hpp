// What somebody expects of the status of a running job: `loss < 3.1`. Pure; any thread.
#pragma once

#include "tools/verbs.hpp"

namespace stagecraft::tools {

/// The words of `expect` -> {"key": "loss", "comparison": "<", "value": 3.1}, or why they make no sense.
std::variant<Json, Senseless> read_expectation(const Words& words);

/// `expectation` as read; `status`: what the job says of itself. Done, unmet, or refused: the status has no such key,
/// or the two can't be compared.
Answer compare(const Json& expectation, const Json& status);

}  // namespace stagecraft::tools
