// Progress of a run on standard error: a bar on a terminal, plain lines elsewhere. Main thread only.
#pragma once

#include <chrono>
#include <cstdint>

#include "actors/messages.hpp"

namespace stagecraft::tools {

class Progress {
 public:
  /// The first report will be of iteration `start` + 1.
  Progress(std::uint32_t iterations, std::uint32_t start, bool digests);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void show(const IterationReport& report);

 private:
  void bar(const IterationReport& report, double rate);

  std::uint32_t iterations_, start_;
  bool digests_;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now(), shown_{};
};

}  // namespace stagecraft::tools
