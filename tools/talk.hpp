// Talking to a running job, one line at a time: what the verbs of the command line and the shell share. Main thread
// only.
#pragma once

#include "tools/control_client.hpp"

namespace stagecraft::tools {

/// Asks, and prints the answer; or what is wrong. What a command that consists of this line ends with.
struct Talked {
  int code = done;
  bool gone = false;  ///< the job is
};
Talked talk(ControlClient& client, const Typed& typed, bool json);

/// Prints it, for a person or as one object; what a command ends with after that.
int say_answer(const Verb& verb, const Answer& answer, const std::string& socket, bool json);

/// A verb of the shell's alone is no verb here.
int talk_command(const TalkOptions& options);

}  // namespace stagecraft::tools
