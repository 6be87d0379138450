// Who of a job's nodes is there, before its first iteration: what nodes say of themselves, who is let in and why not.
// Pure values; one owner.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "actors/job.hpp"
#include "actors/messages.hpp"

namespace stagecraft {

/// What a node that wants to join says of itself.
struct Hello {
  std::string name;
  std::string address;       ///< where other nodes reach its gate: host:port
  std::string build;         ///< fingerprint of its program
  std::string topology;      ///< the resolved file, as text
  std::int64_t clock_s = 0;  ///< its wall clock, in seconds since 1970
};
STAGECRAFT_WIRE(Hello, x.name, x.address, x.build, x.topology, x.clock_s)

/// The first node's list of the others.
class Roster {
 public:
  /// `own`: what the first node would say of itself.
  Roster(const Topology& topology, Hello own);

  /// The index of the node that said so, or why it is not let in.
  std::variant<std::uint32_t, std::string> admit(const Hello& hello);
  /// It reaches every other node.
  void reaches_all(std::uint32_t node) { meshed_.insert(node); }

  bool complete() const { return addresses_.size() == names_.size(); }
  bool ready() const { return meshed_.size() == names_.size(); }
  /// Of all nodes, by index.
  const std::map<std::uint32_t, std::string>& addresses() const { return addresses_; }
  /// Who is not there, or does not reach all others: in words.
  std::string missing() const;

 private:
  std::vector<std::string> names_, listens_;
  Hello own_;
  std::map<std::uint32_t, std::string> addresses_;
  std::set<std::uint32_t> meshed_;
};

}  // namespace stagecraft
