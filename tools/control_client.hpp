// The side of people: finds the control socket of a running job, asks, and waits for the answer, never longer than the
// job keeps silent. Main thread only.
#pragma once

#include <functional>
#include <string>
#include <variant>

#include "tools/verbs.hpp"
#include "transport/line_client.hpp"

namespace stagecraft::tools {

/// Why there is no answer, and what the command ends with.
struct Trouble {
  ExitCode code = bad_input;
  std::string why;
  bool gone = false;         ///< the job is
  bool interrupted = false;  ///< a signal came
};

class ControlClient {
 public:
  /// `socket`: a control socket, or the folder of a run; empty: that of the newest run in `stagecraft-runs` that
  /// answers.
  static std::variant<ControlClient, Trouble> connect(const std::string& socket);

  /// That of the run of this process, in the folder of its runs; none: it does not answer yet.
  static std::optional<ControlClient> connect_to_process(const std::string& runs, pid_t process);

  const std::string& path() const { return path_; }
  /// `waits`: told now and then while the answer takes its time.
  std::variant<Answer, Trouble> ask(const Verb& verb, const Json& arguments,
                                    const std::function<void(const std::string&)>& waits);
  /// Lets so much time pass; why it did not.
  std::optional<Trouble> pause(Duration time);

 private:
  ControlClient(std::string path, LineClient line) : path_(std::move(path)), line_(std::move(line)) {}
  Trouble trouble_of(LineClient::Failure failure) const;

  std::string path_;
  LineClient line_;
  std::uint64_t asked_ = 0;
};

}  // namespace stagecraft::tools
