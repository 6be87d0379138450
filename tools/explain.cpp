#include <fmt/format.h>

#include "config/error_codes.hpp"
#include "tools/commands.hpp"

namespace stagecraft::tools {

int explain_command(const std::string& code) {
  const auto parsed = parse_error_code(code);
  if (!parsed) {
    fmt::print(stderr, "there is no error code '{}'; docs/errors.md lists them all, for example SC0203\n", code);
    return bad_input;
  }
  fmt::print("{}", to_markdown(page_of(*parsed)));
  return done;
}

}  // namespace stagecraft::tools
