// Looks at JSON text before a parser does. Values only; any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace stagecraft {

/// How deep arrays and objects nest, whether or not the text is JSON. Allocates nothing.
inline std::size_t nesting_depth(std::string_view json) {
  std::size_t depth = 0, deepest = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

}  // namespace stagecraft
