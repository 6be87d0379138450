// Where a running job stands, as Prometheus reads it: text over HTTP, on this machine alone.
#pragma once

#include <memory>
#include <string>
#include <variant>

#include "tools/verbs.hpp"

namespace stagecraft::tools {

/// The text of a `status` in the exposition format: names, types and samples; times in seconds. Pure.
std::string metrics_text(const Json& status);

/// Answers GET /metrics. A thread of its own takes the requests; what they get was made by `attend`.
class MetricsDoor {
 public:
  /// Listens on 127.0.0.1; port 0: any that is free. Or why not.
  static std::variant<std::unique_ptr<MetricsDoor>, std::string> open(std::uint16_t port);
  ~MetricsDoor();
  MetricsDoor(const MetricsDoor&) = delete;
  MetricsDoor& operator=(const MetricsDoor&) = delete;

  std::string address() const;
  /// Often, on the thread that drives the job; looks at it a few times a second at most.
  void attend(RunningJob& job);

 private:
  struct Server;
  explicit MetricsDoor(std::unique_ptr<Server> server);
  std::unique_ptr<Server> server_;
};

}  // namespace stagecraft::tools
