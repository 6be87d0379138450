#include "tools/progress.hpp"
#include "tools/output.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string>

namespace stagecraft::tools {

namespace {
constexpr std::uint32_t bar_width = 30;
constexpr std::uint32_t plain_lines = 20;  // about as many where there is no terminal
}  // namespace

Progress::Progress(std::uint32_t iterations, std::uint32_t start, bool digests)
    : iterations_(iterations), start_(start), digests_(digests), terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  if (drawn_) complain("\n");
}

void Progress::show(const IterationReport& report) {
  const double rate = report.time.count() > 0
                          ? static_cast<double>(report.tokens) / (static_cast<double>(report.time.count()) / 1e9)
                          : 0;
  const auto now = std::chrono::steady_clock::now();
  const bool last = report.iteration.value == iterations_;
  if (terminal_) {
    if (!last && now - shown_ < std::chrono::milliseconds(100)) return;
    shown_ = now;
    return bar(report, rate);
  }
  const std::uint32_t every = std::max(1U, iterations_ / plain_lines);
  if (!last && report.iteration.value != start_ + 1 && report.iteration.value % every != 0) return;
  complain("iteration {}/{}  ", report.iteration.value, iterations_);
  if (digests_) {
    complain("{}\n", format(report.time));
  } else {
    complain("loss {:.4f}  norm {:.3f}  {:.0f} tokens/s\n", report.loss, report.gradient_norm, rate);
  }
}

void Progress::bar(const IterationReport& report, double rate) {
  const std::uint32_t full = bar_width * report.iteration.value / std::max(iterations_, 1U);
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  const double left = elapsed / (report.iteration.value - start_) * (iterations_ - report.iteration.value);
  const std::string what =
      digests_ ? format(report.time) : fmt::format("loss {:.4f}  {:.0f} tokens/s", report.loss, rate);
  complain("\r  [{}{}] {}/{}  {}  {:.0f} s left\x1b[K", std::string(full, '#'), std::string(bar_width - full, '.'),
           report.iteration.value, iterations_, what, left);
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace stagecraft::tools
