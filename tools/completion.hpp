// What may come next on a line to a running job: by the table of verbs, and the names that the job has. Pure; any
// thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stagecraft::tools {

/// `line`: up to where the next letter would go. `names`: "stage/0", "node/n0", ... The whole words that may stand
/// there and begin as the last one does, sorted.
std::vector<std::string> completions(std::string_view line, const std::vector<std::string>& names);

}  // namespace stagecraft::tools
