// How a client waits for a running job (verbs_wait.cpp): turn by turn, until it is so, too late, or the job is gone.
// Main thread only.
#pragma once

#include "tools/control_client.hpp"

namespace stagecraft::tools {

/// `arguments`: what was read from the words of `wait`. `waits` as in ControlClient::ask.
std::variant<Answer, Trouble> await_job(ControlClient& client, const Json& arguments,
                                        const std::function<void(const std::string&)>& waits);

}  // namespace stagecraft::tools
