#include "actors/run_digest.hpp"

#include <cstring>

#include "model/sha256.hpp"
#include "planning/bug.hpp"

namespace stagecraft {

namespace {

std::string_view bytes_of(const float* data, std::size_t count) {
  return {reinterpret_cast<const char*>(data), count * sizeof(float)};
}

bool same(const Tensor& a, const Tensor& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class Digester {
 public:
  Digester(const Job& job, const std::vector<StageState>& states) : job_(job), arithmetic_(*job.plan.arithmetic[0]) {
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
      weights_.update(bytes_of(parameters(group).data(), parameters(group).size()));
      hash_moments(group);
    }
    digest_.weights = weights_.hex();
    digest_.moments = moments_.hex();
    return std::move(digest_);
  }

 private:
  const Tensor& parameters(GroupId group) const { return holders_.at(group).front()->parameters.at(group); }
  void violate(std::string text) { digest_.violations.push_back(std::move(text)); }

  void compare_replicas(GroupId group) {
    for (const StageState* s : holders_.at(group))
      if (!same(s->parameters.at(group), parameters(group)))
        violate(fmt::format("parameter group {} of replica {} differs from replica 0", group.value,
                            s->place.replica.value));
  }

  // Every replica holds the moments of its own blocks, packed: read them in the order of the group.
  void hash_moments(GroupId group) {
    const std::uint32_t replicas = job_.topology.pipeline.replicas;
    for (const auto moment : {&StageState::first_moments, &StageState::second_moments}) {
      std::map<std::size_t, std::string_view> blocks;
      for (const StageState* s : holders_.at(group)) {
        const Tensor& packed = (s->*moment).at(group);
        std::size_t at = 0;
        each_owned_block(arithmetic_, group, s->place.replica, replicas, [&](std::size_t first, std::size_t count) {
          blocks[first] = bytes_of(packed.data() + at, count);
          at += count;
        });
      }
      for (const auto& [first, bytes] : blocks) moments_.update(bytes);
    }
  }

  const Job& job_;
  const Arithmetic& arithmetic_;
  std::map<GroupId, std::vector<const StageState*>> holders_;  // by replica
  Sha256 weights_, moments_;
  RunDigest digest_;
};

}  // namespace

RunDigest digest_of(const Job& job, const std::vector<StageState>& states) { return Digester(job, states).run(); }

}  // namespace stagecraft
