// Secrets of the processes of one job: made once, handed over on the encrypted control plane, never logged. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "transport/lane.hpp"

namespace stagecraft {

/// 32 bytes that nobody can guess, from the operating system.
std::string make_secret();
/// The token of one lane, so that each has its own: HMAC-SHA-256 of its name, keyed with the secret.
LaneToken lane_token(std::string_view secret, std::string_view name);

}  // namespace stagecraft
