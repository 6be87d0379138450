#include "actors/run_digest.hpp"

#include <cstring>
#include <set>

#include "actors/state_view.hpp"
#include "model/sha256.hpp"
#include "planning/bug.hpp"

namespace stagecraft {

namespace {

void update(Sha256& hash, const std::vector<Fragment>& fragments) {
  for (const Fragment& f : fragments)
    hash.update({reinterpret_cast<const char*>(f.values.data()), f.values.size_bytes()});
}

bool same(const Tensor& a, const Tensor& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class Digester {
 public:
  Digester(const Job& job, const std::vector<StageState>& states)
      : arithmetic_(*job.plan.arithmetic[0]), view_(view_of(job, states)) {
    for (const StageState& s : states)
      for (const auto& [group, tensor] : s.parameters) holders_[group].push_back(&s);
  }

  RunDigest run() {
    const GroupId embedding = arithmetic_.embedding_group(), head = arithmetic_.head_group();
    for (std::uint32_t g = 0; g < arithmetic_.groups(); ++g) {
      const GroupId group{g};
      compare_replicas(group);
      if (arithmetic_.tied() && group == head) {
        if (!same(parameters(embedding), parameters(head))) violate("the two tied embedding tables differ");
        continue;
      }
      update(weights_, view_.at(group).parameters);
      update(moments_, view_.at(group).first_moments);
      update(moments_, view_.at(group).second_moments);
    }
    digest_.weights = weights_.hex();
    digest_.moments = moments_.hex();
    return std::move(digest_);
  }

 private:
  const Tensor& parameters(GroupId group) const { return holders_.at(group).front()->parameters.at(group); }
  void violate(std::string text) { digest_.violations.push_back(std::move(text)); }

  void compare_replicas(GroupId group) {
    std::set<ReplicaId> seen;
    for (const StageState* s : holders_.at(group))
      if (!seen.insert(s->place.replica).second)
        violate(fmt::format("parameter group {} has two owners in replica {}", group.value, s->place.replica.value));
    for (const StageState* s : holders_.at(group))
      if (!same(s->parameters.at(group), parameters(group)))
        violate(fmt::format("parameter group {} of replica {} differs from replica 0", group.value,
                            s->place.replica.value));
  }

  const Arithmetic& arithmetic_;
  StateView view_;
  std::map<GroupId, std::vector<const StageState*>> holders_;  // by replica
  Sha256 weights_, moments_;
  RunDigest digest_;
};

}  // namespace

RunDigest digest_of(const Job& job, const std::vector<StageState>& states) { return Digester(job, states).run(); }

}  // namespace stagecraft
