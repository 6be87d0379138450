// Memory of this process, as the system counts it. Thread promise: any thread.
#pragma once

#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>

namespace stagecraft::bench {

/// A line of /proc/self/status that is given in kB. (The peak of getrusage would be that of the parent, if larger.)
inline std::uint64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key + ":")) return std::stoull(line.substr(key.size() + 1)) * 1024;
  throw std::runtime_error("/proc/self/status has no " + key);
}

}  // namespace stagecraft::bench
