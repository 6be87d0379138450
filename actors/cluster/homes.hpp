// On which node each actor of a job lives, and where those of a lost node go. A pure value; one owner.
//
// At first who works for one stage lives where the stage does, twins on the next node, all others on the node that
// leads the job, which at first is node 0.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "actors/cluster/actor_name.hpp"
#include "config/topology.hpp"

namespace stagecraft {

class Homes {
 public:
  /// `topology` outlives it.
  explicit Homes(const Topology& topology);

  /// Index of the node.
  std::uint32_t of(const ActorName& name) const;
  std::uint32_t of(const Member& member) const { return of(name_of(member)); }
  static ActorName name_of(const Member& member);

  std::uint32_t leader() const { return leader_; }
  void lead(std::uint32_t node) { leader_ = node; }

  /// Only these nodes are left, one at least: finds other homes for the stages and twins of the others, on the node
  /// with the fewest for its devices, a twin apart from its stage where there are nodes enough. Who they were, and
  /// where.
  std::vector<std::pair<Member, std::uint32_t>> keep(const std::vector<std::uint32_t>& left);

  /// Where stages and twins live that are not at their first home.
  const std::map<Member, std::uint32_t>& moved() const { return moved_; }
  void adopt(const std::map<Member, std::uint32_t>& moved) { moved_ = moved; }

 private:
  std::vector<Member> members() const;
  std::uint32_t first_home(const Member& member) const;
  std::uint32_t best_home(const Member& member) const;

  const Topology* topology_;
  std::uint32_t leader_ = 0;
  std::map<Member, std::uint32_t> moved_;
  std::set<std::uint32_t> gone_;
};

}  // namespace stagecraft
