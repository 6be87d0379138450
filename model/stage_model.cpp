#include "model/stage_model.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "planning/bug.hpp"
#include "planning/random.hpp"

namespace stagecraft {

namespace {

TieRole find_tie_role(const Arithmetic& arithmetic, const StageShare& share) {
  if (!arithmetic.tied()) return TieRole::none;
  bool embedding = false, head = false;
  for (const ChunkUnits& c : share.chunks) {
    embedding |= c.units.contains(0);
    head |= c.units.contains(arithmetic.head_unit().value);
  }
  if (embedding && head) return TieRole::both;
  return embedding ? TieRole::embedding : head ? TieRole::head : TieRole::none;
}

}  // namespace

StageModel::StageModel(std::shared_ptr<const Arithmetic> arithmetic, StageShare share, std::shared_ptr<Arena> arena,
                       NegativeControls controls)
    : arithmetic_(std::move(arithmetic)),
      share_(std::move(share)),
      arena_(std::move(arena)),
      controls_(controls),
      tie_role_(find_tie_role(*arithmetic_, share_)) {}

const ChunkUnits& StageModel::chunk(ChunkId id) const {
  const auto it = std::find_if(share_.chunks.begin(), share_.chunks.end(), [&](const auto& c) { return c.id == id; });
  STAGECRAFT_ASSERT(it != share_.chunks.end(), "chunk {} is not hosted by stage {}", id.value,
                    share_.place.stage.value);
  return *it;
}

GroupId StageModel::alias(GroupId group) const {
  const bool shared = tie_role_ == TieRole::both && group == arithmetic_->head_group();
  return shared ? arithmetic_->embedding_group() : group;
}

GroupId StageModel::accumulator(GroupId group) const { return controls_.one_tied_accumulator ? alias(group) : group; }

std::vector<GroupId> StageModel::groups_of(ChunkId id) const {
  std::vector<GroupId> result;
  const Range units = chunk(id).units;
  for (std::uint32_t u = units.begin; u < units.end; ++u)
    for (const GroupId g : arithmetic_->groups_of(UnitId{u})) result.push_back(g);
  return result;
}

std::vector<GroupId> StageModel::groups() const {
  std::vector<GroupId> result;
  for (const ChunkUnits& c : share_.chunks)
    for (const GroupId g : groups_of(c.id)) result.push_back(g);
  return result;
}

std::vector<Tensor> StageModel::weights(UnitId unit) const {
  std::vector<Tensor> result;
  for (const GroupId g : arithmetic_->groups_of(unit)) result.push_back(parameters_.at(alias(g)));
  return result;
}

BatchView StageModel::view(const TokenBatch& batch) const {
  return {batch.iteration, batch.micro_batch, batch.packing.get(), batch.inputs, batch.targets};
}

Tensor StageModel::make(GroupId group, std::size_t elements) {
  return Tensor(arena_->allocate(elements * sizeof(float), arithmetic_->charged(group, elements)), elements);
}

void StageModel::initialise() {
  for (const GroupId g : groups()) {
    if (is_alias(g)) continue;
    parameters_[g] = make(g, arithmetic_->elements(g));
    const bool tied_head = arithmetic_->tied() && g == arithmetic_->head_group();
    arithmetic_->initialise(tied_head ? arithmetic_->embedding_group() : g, parameters_[g].span());
    const std::size_t owned = owned_elements(*arithmetic_, g, share_.place.replica, share_.replicas);
    for (auto* moments : {&first_moments_, &second_moments_}) {
      Tensor& moment = (*moments)[g] = make(g, owned);
      std::fill_n(moment.data(), owned, 0.0F);
    }
  }
}

void StageModel::restore(const std::map<GroupId, GroupValues>& state) {
  for (const GroupId g : groups()) {
    if (is_alias(g)) continue;
    const bool tied_head = arithmetic_->tied() && g == arithmetic_->head_group();
    const GroupValues& from = state.at(tied_head ? arithmetic_->embedding_group() : g);
    const std::size_t all = arithmetic_->elements(g);
    STAGECRAFT_ASSERT(
        from.parameters.size() == all && from.first_moments.size() == all && from.second_moments.size() == all,
        "group {} has {} elements, the checkpoint gives {}", g.value, all, from.parameters.size());
    std::copy(from.parameters.begin(), from.parameters.end(), parameters_.at(g).data());
    std::size_t at = 0;
    each_owned_block(*arithmetic_, g, share_.place.replica, share_.replicas, [&](std::size_t first, std::size_t count) {
      std::copy_n(from.first_moments.data() + first, count, first_moments_.at(g).data() + at);
      std::copy_n(from.second_moments.data() + first, count, second_moments_.at(g).data() + at);
      at += count;
    });
  }
}

void StageModel::take_over(const std::map<GroupId, Tensor>& parameters, const std::map<GroupId, Tensor>& first_moments,
                           const std::map<GroupId, Tensor>& second_moments) {
  const auto copy = [this](GroupId group, Tensor& to, const std::map<GroupId, Tensor>& from, std::size_t elements) {
    const Tensor& other = from.at(group);
    STAGECRAFT_ASSERT(other.size() == elements, "group {} has {} elements, its copy {}", group.value, elements,
                      other.size());
    if (to.empty()) to = make(group, elements);
    std::copy_n(other.data(), elements, to.data());
  };
  for (const GroupId g : groups()) {
    if (is_alias(g)) continue;
    const std::size_t owned = owned_elements(*arithmetic_, g, share_.place.replica, share_.replicas);
    copy(g, parameters_[g], parameters, arithmetic_->elements(g));
    copy(g, first_moments_[g], first_moments, owned);
    copy(g, second_moments_[g], second_moments, owned);
  }
}

void StageModel::reshape(std::shared_ptr<const Arithmetic> arithmetic, std::vector<ChunkUnits> chunks,
                         HeldGroups arriving) {
  arithmetic_ = std::move(arithmetic);
  share_.chunks = std::move(chunks);
  begin(iteration_);  // what is left of an iteration is of the old share
  const std::vector<GroupId> now = groups();
  const auto settle = [&](std::map<GroupId, Tensor>& held, std::map<GroupId, Tensor>& given) {
    std::erase_if(held, [&](const auto& h) { return std::find(now.begin(), now.end(), h.first) == now.end(); });
    for (auto& [group, tensor] : given) {
      if (std::find(now.begin(), now.end(), group) == now.end()) continue;
      tensor.buffer()->charge_to(arena_);
      held[group] = std::move(tensor);
    }
  };
  settle(parameters_, arriving.parameters);
  settle(first_moments_, arriving.first_moments);
  settle(second_moments_, arriving.second_moments);
  std::map<GroupId, Tensor> none;
  settle(prepared_, none);
}

bool StageModel::complete() const {
  const std::vector<GroupId> all = groups();
  return std::all_of(all.begin(), all.end(), [this](GroupId g) { return parameters_.contains(alias(g)); });
}

HeldGroups StageModel::held(const std::vector<GroupId>& groups) const {
  HeldGroups result;
  for (const GroupId g : groups) {
    result.parameters[g] = parameters_.at(g);
    result.first_moments[g] = first_moments_.at(g);
    result.second_moments[g] = second_moments_.at(g);
  }
  return result;
}

HeldGroups StageModel::copy() {
  HeldGroups result = held();
  for (auto* tensors : {&result.parameters, &result.first_moments, &result.second_moments})
    for (auto& [group, tensor] : *tensors) tensor = copy_of(group, tensor);
  return result;
}

std::uint64_t StageModel::digest(const std::vector<GroupId>& groups) const {
  std::uint64_t hash = 0;
  const auto add = [&hash](const float* data, std::size_t count) {
    hash = keyed(hash, XXH3_64bits(data, count * sizeof(float)), count);
  };
  for (const GroupId g : groups) {
    hash = keyed(hash, g.value);
    each_owned_block(*arithmetic_, g, share_.place.replica, share_.replicas,
                     [&](std::size_t first, std::size_t count) { add(parameters_.at(g).data() + first, count); });
    add(first_moments_.at(g).data(), first_moments_.at(g).size());
    add(second_moments_.at(g).data(), second_moments_.at(g).size());
  }
  return hash;
}

void StageModel::separate() {
  for (auto* tensors : {&parameters_, &first_moments_, &second_moments_})
    for (auto& [group, tensor] : *tensors) tensor = copy_of(group, tensor);
}

Tensor StageModel::copy_of(GroupId group, const Tensor& tensor) {
  Tensor copy = make(group, tensor.size());
  std::copy_n(tensor.data(), tensor.size(), copy.data());
  return copy;
}

void StageModel::begin(Iteration iteration) {
  iteration_ = iteration;
  activations_.clear();
  open_.clear();
  progress_.clear();
  finished_.clear();
  loss_ = {};
}

Tensor StageModel::forward(ChunkId id, Tensor input, std::shared_ptr<const TokenBatch> batch) {
  const Range units = chunk(id).units;
  const BatchView seen = view(*batch);
  Activation& activation = activations_[{id, batch->micro_batch}];
  activation.units.resize(units.size());
  activation.batch = std::move(batch);
  for (std::uint32_t u = units.begin; u < units.end; ++u)
    input = arithmetic_->forward(UnitId{u}, weights(UnitId{u}), input, seen, activation.units[u - units.begin], loss_,
                                 *arena_);
  return input;
}

Tensor StageModel::backward_input(ChunkId id, MicroBatch micro_batch, Tensor gradient) {
  const Range units = chunk(id).units;
  Activation& activation = activations_.at({id, micro_batch});
  const BatchView seen = view(*activation.batch);
  for (std::uint32_t u = units.end; u-- > units.begin;)
    gradient = arithmetic_->input_grad(UnitId{u}, weights(UnitId{u}), activation.units[u - units.begin], gradient, seen,
                                       *arena_);
  return gradient;
}

void StageModel::backward_weight(ChunkId id, MicroBatch micro_batch) {
  const Range units = chunk(id).units;
  auto node = activations_.extract({id, micro_batch});
  STAGECRAFT_ASSERT(!node.empty(), "W of micro-batch {} in chunk {} has no activations", micro_batch.value, id.value);
  Activation& activation = node.mapped();
  const BatchView seen = view(*activation.batch);
  const std::uint32_t shard = shard_of(micro_batch, share_.shards, share_.micro_batches);
  for (std::uint32_t u = units.begin; u < units.end; ++u)
    accumulate(UnitId{u}, shard, activation.units[u - units.begin], seen);
  close_shards(id, shard);
}

void StageModel::accumulate(UnitId unit, std::uint32_t shard, Saved& saved, const BatchView& batch) {
  std::vector<Tensor> gradients;
  for (const GroupId g : arithmetic_->groups_of(unit)) {
    Tensor& sum = open_[{accumulator(g), shard}];
    if (sum.empty()) {
      sum = make(g, arithmetic_->elements(g));
      std::fill_n(sum.data(), sum.size(), 0.0F);
    }
    gradients.push_back(sum);
  }
  arithmetic_->weight_grad(unit, saved, batch, gradients, *arena_);
}

// When the last micro-batch of a shard is in, its buffers move to the stack; shards without micro-batches are absent.
void StageModel::close_shards(ChunkId id, std::uint32_t shard) {
  const Range own = shards_of(share_.place.replica, share_.replicas, share_.shards);
  ShardProgress& progress = progress_.try_emplace(id, ShardProgress{own.begin, {}}).first->second;
  ++progress.added[shard];
  while (progress.next < own.end) {
    const std::uint32_t size = micro_batches_of_shard(progress.next, share_.shards, share_.micro_batches).size();
    if (progress.added[progress.next] < size) break;
    for (const GroupId g : groups_of(id)) {
      auto node = open_.extract({g, progress.next});
      finished_.try_emplace(g, controls_.reduction)
          .first->second.push(*arithmetic_, progress.next, node.empty() ? Tensor{} : std::move(node.mapped()));
    }
    ++progress.next;
  }
}

std::vector<Segment> StageModel::take_segments(GroupId group) {
  SegmentStack stack(controls_.reduction);
  if (auto node = finished_.extract(group)) stack = std::move(node.mapped());
  std::vector<Segment> segments = stack.take();
  // A replica or a chunk without micro-batches has closed nothing: all its shards are absent.
  const Range own = shards_of(share_.place.replica, share_.replicas, share_.shards);
  for (std::uint32_t s = segments.empty() ? own.begin : segments.back().shards.end; s < own.end; ++s)
    segments.push_back({{s, s + 1}, Tensor{}});
  return segments;
}

ExactSum StageModel::reduce(GroupId group, const std::vector<Segment>& segments) {
  const bool whole = segments.size() == 1 && share_.replicas == 1 && !segments[0].value.empty();
  Tensor& gradient = prepared_[group];
  if (whole) {
    gradient = segments[0].value;  // the one subtree is the tree, and every block is owned
  } else {
    gradient = make(group, owned_elements(*arithmetic_, group, share_.place.replica, share_.replicas));
    std::size_t at = 0;
    each_owned_block(
        *arithmetic_, group, share_.place.replica, share_.replicas, [&](std::size_t first, std::size_t count) {
          const std::span<float> out(gradient.data() + at, count);
          if (!evaluate_tree(*arithmetic_, segments, share_.shards, first, out, *arena_, controls_.reduction))
            std::fill(out.begin(), out.end(), 0.0F);
          at += count;
        });
  }
  const bool tied =
      tie_role_ != TieRole::none && (group == arithmetic_->embedding_group() || group == arithmetic_->head_group());
  return tied ? ExactSum{} : square_sum(group, gradient);
}

GroupId StageModel::tied_group() const {
  return tie_role_ == TieRole::head ? arithmetic_->head_group() : arithmetic_->embedding_group();
}

// The sum goes to a buffer of its own: the part that was sent to the other end must stay as it is.
ExactSum StageModel::tie(const Tensor& partner) {
  const GroupId embedding = arithmetic_->embedding_group(), head = arithmetic_->head_group();
  const GroupId own = tied_group();
  const Tensor mine = prepared_.at(own);
  const Tensor other = tie_role_ == TieRole::both ? prepared_.at(head) : partner;
  STAGECRAFT_ASSERT(mine.size() == other.size(), "tied parts of {} and {} elements", mine.size(), other.size());
  Tensor sum = make(own, mine.size());
  const Tensor& first = tie_role_ == TieRole::head ? other : mine;
  const Tensor& second = tie_role_ == TieRole::head ? mine : other;
  std::size_t at = 0;
  each_owned_block(*arithmetic_, own, share_.place.replica, share_.replicas, [&](std::size_t, std::size_t count) {
    arithmetic_->add({first.data() + at, count}, {second.data() + at, count}, {sum.data() + at, count});
    at += count;
  });
  prepared_[own] = sum;
  if (tie_role_ == TieRole::both) prepared_.erase(head);
  return own == embedding ? square_sum(own, sum) : ExactSum{};
}

ExactSum StageModel::square_sum(GroupId group, const Tensor& owned) const {
  ExactSum sum;
  std::size_t at = 0;
  each_owned_block(*arithmetic_, group, share_.place.replica, share_.replicas, [&](std::size_t, std::size_t count) {
    sum.add(arithmetic_->square_sum({owned.data() + at, count}));
    at += count;
  });
  return sum;
}

void StageModel::step(const StepFactors& factors) {
  for (const GroupId g : groups()) {
    if (is_alias(g)) continue;
    const auto gradient = prepared_.find(g);
    STAGECRAFT_ASSERT(gradient != prepared_.end(), "a step without a reduced gradient of group {}", g.value);
    std::size_t at = 0;
    each_owned_block(*arithmetic_, g, share_.place.replica, share_.replicas, [&](std::size_t first, std::size_t count) {
      arithmetic_->step(g, first, {parameters_.at(g).data() + first, count}, {first_moments_.at(g).data() + at, count},
                        {second_moments_.at(g).data() + at, count}, {gradient->second.data() + at, count}, factors);
      at += count;
    });
  }
}

Tensor StageModel::owned_parameters(GroupId group) const {
  const std::size_t owned = owned_elements(*arithmetic_, group, share_.place.replica, share_.replicas);
  Tensor part(arena_->allocate(owned * sizeof(float), arithmetic_->charged(group, owned)), owned);
  std::size_t at = 0;
  each_owned_block(*arithmetic_, group, share_.place.replica, share_.replicas,
                   [&](std::size_t first, std::size_t count) {
                     std::memcpy(part.data() + at, parameters(group).data() + first, count * sizeof(float));
                     at += count;
                   });
  return part;
}

void StageModel::adopt_parameters(GroupId group, ReplicaId owner, const Tensor& part) {
  std::size_t at = 0;
  each_owned_block(*arithmetic_, group, owner, share_.replicas, [&](std::size_t first, std::size_t count) {
    std::memcpy(parameters_.at(alias(group)).data() + first, part.data() + at, count * sizeof(float));
    at += count;
  });
}

}  // namespace stagecraft
