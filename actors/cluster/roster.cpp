#include "actors/cluster/roster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace stagecraft {

namespace {

/// Certificates and logs make no sense to each other beyond this.
constexpr std::int64_t clocks_apart_s = 600;

// The first line in which two texts differ, of both.
std::string difference(const std::string& ours, const std::string& theirs) {
  std::istringstream a(ours), b(theirs);
  std::string line_a, line_b;
  for (int line = 1;; ++line) {
    const bool more_a = static_cast<bool>(std::getline(a, line_a)), more_b = static_cast<bool>(std::getline(b, line_b));
    if (!more_a && !more_b) return "nowhere";
    if (!more_a) line_a = "(nothing)";
    if (!more_b) line_b = "(nothing)";
    if (line_a != line_b)
      return fmt::format("line {} of the resolved file is '{}' here and '{}' there", line, line_a, line_b);
  }
}

}  // namespace

Roster::Roster(const Topology& topology, Hello own) : own_(std::move(own)) {
  for (const NodeSpec& node : topology.nodes) {
    names_.push_back(node.name);
    listens_.push_back(node.listen);
  }
  addresses_[0] = own_.address;
}

std::variant<std::uint32_t, std::string> Roster::admit(const Hello& hello) {
  const auto found = std::find(names_.begin(), names_.end(), hello.name);
  if (found == names_.end())
    return fmt::format("this job has no node '{}', only {}", hello.name, fmt::join(names_, ", "));
  const auto index = static_cast<std::uint32_t>(found - names_.begin());
  if (addresses_.contains(index))
    return fmt::format("node '{}' is there already, at {}; give every process the name of a node of its own",
                       hello.name, addresses_.at(index));
  if (hello.build != own_.build)
    return fmt::format("node '{}' runs build {} and node '{}' build {}; use the same program on all nodes", hello.name,
                       hello.build.substr(0, 12), own_.name, own_.build.substr(0, 12));
  if (hello.topology != own_.topology)
    return fmt::format(
        "node '{}' has another topology than node '{}': {}; start all nodes with the same file and the "
        "same --set",
        hello.name, own_.name, difference(own_.topology, hello.topology));
  if (const std::int64_t apart = hello.clock_s - own_.clock_s; apart > clocks_apart_s || apart < -clocks_apart_s)
    return fmt::format(
        "the clock of node '{}' is {} s {} that of node '{}'; set both, certificates and logs depend on "
        "them",
        hello.name, apart < 0 ? -apart : apart, apart < 0 ? "behind" : "ahead of", own_.name);
  addresses_[index] = hello.address;
  return index;
}

std::string Roster::missing() const {
  std::vector<std::string> who;
  for (std::uint32_t n = 0; n < names_.size(); ++n) {
    if (!addresses_.contains(n)) {
      who.push_back(fmt::format("node '{}' ({}) has not come", names_[n], listens_[n]));
    } else if (complete() && !meshed_.contains(n)) {
      who.push_back(fmt::format("node '{}' ({}) does not reach all others", names_[n], addresses_.at(n)));
    }
  }
  return fmt::format("{}", fmt::join(who, ", "));
}

}  // namespace stagecraft
