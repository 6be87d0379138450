// Values as pieces of YAML that the readers take back to the same value. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "planning/units.hpp"

namespace stagecraft {

/// In double quotes, so that no text can be taken for a number or a piece of YAML.
std::string in_quotes(std::string_view text);

// With the largest unit that divides the number: exact, unlike the forms for people.

std::string exact(Duration d);
std::string exact(Bytes b);
std::string exact(Bandwidth b);

}  // namespace stagecraft
