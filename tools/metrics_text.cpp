#include <fmt/format.h>

#include "tools/metrics.hpp"

namespace stagecraft::tools {

namespace {

// Within the quotes of a label.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

class Exposition {
 public:
  explicit Exposition(const std::string& job) : job_(escaped(job)) {}

  void family(const char* name, const char* type, const char* help) {
    name_ = name;
    text_ += fmt::format("# HELP stagecraft_{0} {2}\n# TYPE stagecraft_{0} {1}\n", name, type, help);
  }
  void sample(double value, const std::string& labels = {}) {
    text_ += fmt::format("stagecraft_{}{{job=\"{}\"{}{}}} {}\n", name_, job_, labels.empty() ? "" : ",", labels, value);
  }
  /// Nothing, where there is no number.
  void one(const char* name, const char* type, const char* help, const Json& value, double factor = 1) {
    if (!value.is_number() && !value.is_boolean()) return;
    family(name, type, help);
    sample(value.is_boolean() ? (value.get<bool>() ? 1 : 0) : value.get<double>() * factor);
  }
  std::string text() && { return std::move(text_); }

 private:
  std::string job_, name_, text_;
};

}  // namespace

std::string metrics_text(const Json& status) {
  Exposition out(status.value("job", ""));
  const auto at = [&](const char* key) { return status.contains(key) ? status[key] : Json(); };
  out.one("iteration", "gauge", "The newest iteration that is committed.", at("iteration"));
  out.one("iterations_planned", "gauge", "The last iteration of the job.", at("iterations"));
  out.one("loss", "gauge", "Mean loss of the newest iteration.", at("loss"));
  out.one("iteration_seconds", "gauge", "Time of the newest iteration.", at("iteration_ms"), 1e-3);
  out.one("iteration_tokens", "gauge", "Tokens of the newest iteration.", at("tokens"));
  out.one("running_seconds", "gauge", "Since the job began.", at("running_s"));
  out.one("since_progress_seconds", "gauge", "Since the newest iteration was committed.", at("since_progress_s"));
  out.one("paused", "gauge", "1 while the job is paused.", at("paused"));
  out.one("stopping", "gauge", "1 when the job ends with the present iteration.", at("stopping"));
  out.one("moves_total", "counter", "Moves of layers that were made.", at("moves"));
  out.family("losses_total", "counter", "How often a stage or a twin was lost and built anew.");
  for (const Json& x : status.value("losses", Json::array()))
    out.sample(x.value("times", 0.0), fmt::format("who=\"{}\"", escaped(x.value("who", ""))));
  out.family("node_up", "gauge", "1 while the node takes part.");
  for (const Json& x : status.value("nodes", Json::array()))
    out.sample(x.value("state", "") == "up" ? 1 : 0, fmt::format("node=\"{}\"", escaped(x.value("node", ""))));
  return std::move(out).text();
}

}  // namespace stagecraft::tools
