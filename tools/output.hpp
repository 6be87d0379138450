// Text for people and scripts, without surprises: a stream that can't be written to never throws and never ends a run.
// Main thread only.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace stagecraft::tools {

/// To standard output. Failures show in `output_is_sound`.
template <class... Values>
void say(fmt::format_string<Values...> text, Values&&... values) {
  std::fputs(fmt::format(text, std::forward<Values>(values)...).c_str(), stdout);
}

/// To standard error. Failures are nobody's business.
template <class... Values>
void complain(fmt::format_string<Values...> text, Values&&... values) {
  std::fputs(fmt::format(text, std::forward<Values>(values)...).c_str(), stderr);
}

/// Everything that was said has left this process.
inline bool output_is_sound() { return std::fflush(stdout) == 0 && std::ferror(stdout) == 0; }

}  // namespace stagecraft::tools
