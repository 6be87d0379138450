// Where the lines of the shell come from: a person at a terminal, with editing, history and completion, or a script.
// Main thread only.
#pragma once

#include <functional>
#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft::tools {

class ShellInput {
 public:
  virtual ~ShellInput() = default;
  struct Line {
    std::string text;
    std::string where;  ///< "script.txt:3"; empty: a person knows
  };
  /// None: there are no more. An empty line: a person pressed Ctrl-C.
  virtual std::optional<Line> next() = 0;
};

/// `name` of the script, for messages. `lines` outlives it.
std::unique_ptr<ShellInput> script_input(std::istream& lines, std::string name);
/// `complete`: the words that may stand at the end of what is typed so far. History is kept in `history`; empty:
/// nowhere.
std::unique_ptr<ShellInput> terminal_input(std::function<std::vector<std::string>(std::string_view)> complete,
                                           std::string history);

/// Without what follows a #.
std::vector<std::string> words_of(std::string_view line);

}  // namespace stagecraft::tools
