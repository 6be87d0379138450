// Problems of a file as the JSON of every verb has them. Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "config/diagnostics.hpp"

namespace stagecraft::tools {

inline nlohmann::ordered_json to_json(const std::vector<Diagnostic>& diagnostics) {
  auto list = nlohmann::ordered_json::array();
  for (const Diagnostic& d : diagnostics)
    list.push_back({{"code", to_text(d.code)},
                    {"severity", to_text(d.severity)},
                    {"source", d.source},
                    {"line", d.at.line},
                    {"column", d.at.column},
                    {"message", d.message}});
  return list;
}

}  // namespace stagecraft::tools
