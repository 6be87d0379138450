// The other nodes of a job as processes of this machine, which end with this one.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace stagecraft::tools {

/// Main thread only.
class ChildProcesses {
 public:
  ChildProcesses() = default;
  /// Ends those that are left: asks, waits a little, kills.
  ~ChildProcesses();
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;

  /// This program with these arguments, in a process group of its own, so that Ctrl-C reaches this process alone. What
  /// it says goes to standard error, or to the file `log`. Throws std::system_error.
  void start(const std::string& name, const std::vector<std::string>& arguments, const std::string& log = {});
  /// Who has ended so far, and how, if that was not well.
  std::optional<std::string> failed();
  /// Waits until all have ended, or `seconds` are over.
  void wait(int seconds);
  std::map<std::string, pid_t> alive() const { return alive_; }

 private:
  void reap();

  std::map<std::string, pid_t> alive_;
  std::vector<std::string> failures_;
};

/// Called first by a process that ChildProcesses has started: it ends when its parent does.
void end_with_parent();

}  // namespace stagecraft::tools
