// Broken invariants: assertions that stay on in release. A `Bug` ends the actor that meets it, then the run, with exit
// code 70. Any thread.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace stagecraft {

/// Something that this program promised can't happen has happened.
class Bug : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] inline void raise_bug(const char* file, int line, const char* condition, const std::string& text) {
  throw Bug(fmt::format("{}:{}: {} (broken: {})", file, line, text, condition));
}

}  // namespace stagecraft

/// STAGECRAFT_ASSERT(condition, "format {}", values...)
#define STAGECRAFT_ASSERT(condition, ...)                                                  \
  do {                                                                                     \
    if (!(condition)) [[unlikely]]                                                         \
      ::stagecraft::raise_bug(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)
