// The pages of the three groups of codes, each in increasing order. Internal to config/error_codes.cpp. Values only;
// any thread.
#pragma once

#include <span>

#include "config/error_codes.hpp"

namespace stagecraft {

std::span<const ErrorPage> syntax_pages();    ///< SC01xx
std::span<const ErrorPage> topology_pages();  ///< SC02xx
std::span<const ErrorPage> scenario_pages();  ///< SC03xx

}  // namespace stagecraft
