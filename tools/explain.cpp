#include <fmt/format.h>

#include "config/error_codes.hpp"
#include "tools/commands.hpp"
#include "tools/output.hpp"

namespace stagecraft::tools {

int explain_command(const std::string& code) {
  const auto parsed = parse_error_code(code);
  if (!parsed) {
    complain("there is no error code '{}'; docs/errors.md lists them all, for example SC0203\n", code);
    return bad_input;
  }
  say("{}", to_markdown(page_of(*parsed)));
  return done;
}

}  // namespace stagecraft::tools
