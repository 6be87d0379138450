// A job without actors: stage models whose operators, reductions and steps a test calls by hand, and a plain process
// that knows neither stages nor shards' owners, to compare them with. Thread promise: one thread.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "model/optimizer.hpp"
#include "model/stage_model.hpp"
#include "tests/model/llama_fixture.hpp"

namespace stagecraft::test {

/// In which order a replica runs the operators of an iteration.
enum class Order : std::uint8_t {
  one_by_one,        ///< F, B and W of a micro-batch, then the next
  forwards_first,    ///< all F, then B and W of each
  backwards_first,   ///< all F, all B (the last first), then all W
  weights_reversed,  ///< as one_by_one, but W from the last micro-batch to the first: breaks the bits
};

/// The batches of an iteration, by micro-batch.
using Batches = std::vector<std::shared_ptr<const TokenBatch>>;

struct JobSetup {
  std::shared_ptr<const Arithmetic> arithmetic;
  std::uint32_t micro_batches = 7, shards = 4;
  std::function<Batches(Iteration)> batches;
  OptimizerSpec optimizer;
  std::uint32_t stages = 1, replicas = 1;
  std::vector<std::uint32_t> layout;  ///< layers per chunk, chunk c on stage c mod stages; empty: all in one
  Order order = Order::one_by_one;
  NegativeControls controls{};

  JobSetup on(std::uint32_t stage_count, std::vector<std::uint32_t> layers, std::uint32_t replica_count = 1,
              Order how = Order::one_by_one) const {
    JobSetup s = *this;
    s.stages = stage_count, s.layout = std::move(layers), s.replicas = replica_count, s.order = how;
    return s;
  }
  JobSetup with(NegativeControls c) const {
    JobSetup s = *this;
    s.controls = c;
    return s;
  }
};

/// Everything that an iteration may change, by group and element, wherever it was held. With tied embeddings the head
/// group shows the head end's copy of the table (its moments too), and the gradients of both ends before they are
/// added.
struct Snapshot {
  std::vector<Floats> gradients, parameters, first_moments, second_moments;
  ExactSum loss, square_sum;
  std::uint64_t tokens = 0;
};
using History = std::vector<Snapshot>;

/// Bit for bit; names the first difference.
inline testing::AssertionResult same_run(const History& a, const History& b) {
  if (a.size() != b.size()) return testing::AssertionFailure() << a.size() << " against " << b.size() << " iterations";
  for (std::size_t k = 0; k < a.size(); ++k) {
    const auto differ = [&](const char* what) {
      return testing::AssertionFailure() << what << " of iteration " << k + 1 << " differs";
    };
    if (!(a[k].loss == b[k].loss) || a[k].tokens != b[k].tokens) return differ("the loss");
    for (const auto& [what, member] :
         {std::pair{"the gradient", &Snapshot::gradients}, std::pair{"the parameters", &Snapshot::parameters},
          std::pair{"the first moment", &Snapshot::first_moments},
          std::pair{"the second moment", &Snapshot::second_moments}}) {
      if ((a[k].*member).size() != (b[k].*member).size()) return differ(what);
      for (std::size_t g = 0; g < (a[k].*member).size(); ++g)
        if (!same_bits((a[k].*member)[g], (b[k].*member)[g])) return differ(what) << " in group " << g;
    }
    if (!(a[k].square_sum == b[k].square_sum)) return differ("the norm");
  }
  return testing::AssertionSuccess();
}

inline Floats floats_of(const Tensor& t) { return {t.data(), t.data() + t.size()}; }

class HandDriven {
 public:
  explicit HandDriven(JobSetup setup) : setup_(std::move(setup)), a_(*setup_.arithmetic) {
    if (setup_.layout.empty()) setup_.layout.assign(1, a_.layers());
    std::vector<std::vector<ChunkUnits>> hosted(setup_.stages);
    std::uint32_t next = 1;
    for (std::uint32_t c = 0; c < chunks(); ++c) {
      const std::uint32_t begin = c == 0 ? 0 : next;
      next += setup_.layout[c];
      hosted[stage_of(c)].push_back({ChunkId{c}, {begin, c + 1 == chunks() ? a_.units() : next}});
    }
    for (std::uint32_t r = 0; r < setup_.replicas; ++r)
      for (std::uint32_t s = 0; s < setup_.stages; ++s) {
        arenas_.push_back(Arena::make(fmt::format("stage {}.{}", s, r), Bytes{}));
        const StageShare share{
            {StageId{s}, ReplicaId{r}}, setup_.replicas, setup_.micro_batches, setup_.shards, hosted[s]};
        models_.push_back(std::make_unique<StageModel>(setup_.arithmetic, share, arenas_.back(), setup_.controls));
        models_.back()->initialise();
      }
  }

  History run(std::uint32_t iterations) {
    History result;
    for (std::uint32_t k = 1; k <= iterations; ++k) result.push_back(iterate(Iteration{k}));
    return result;
  }
  Snapshot iterate(Iteration k) {
    compute(k);
    reduce();
    step(k);
    return std::move(now_);
  }

  // -- the parts of an iteration
  void compute(Iteration k) {
    batches_ = setup_.batches(k);
    for (auto& m : models_) m->begin(k);
    for (std::uint32_t r = 0; r < setup_.replicas; ++r) run_replica(ReplicaId{r});
  }
  void reduce() {
    now_ = {};
    now_.gradients.resize(a_.groups());
    for (std::uint32_t s = 0; s < setup_.stages; ++s)
      for (const GroupId g : model(s, 0).groups()) reduce(s, g);
    if (a_.tied()) tie();
    for (auto& m : models_) {
      now_.loss.add(m->loss().loss);
      now_.tokens += m->loss().tokens;
    }
    for (const ExactSum& part : square_sums_) {
      if (setup_.controls.round_norm_per_stage) {  // as the reducers of a job do
        now_.square_sum.add(static_cast<double>(static_cast<float>(part.value())));
      } else {
        now_.square_sum.add(part);
      }
    }
    square_sums_.clear();
  }
  void step(Iteration k) {
    const double clip = clip_factor(setup_.optimizer, now_.square_sum, now_.tokens);
    const StepFactors factors = step_factors(setup_.optimizer, k.value, 100, clip, now_.tokens);
    for (auto& m : models_) {
      m->step(factors);
      m->drop_prepared();
    }
    for (std::uint32_t s = 0; s < setup_.stages; ++s) gather(s);
    look();
  }

  StageModel& model(std::uint32_t stage, std::uint32_t replica) { return *models_[replica * setup_.stages + stage]; }
  Arena& arena(std::uint32_t stage, std::uint32_t replica) { return *arenas_[replica * setup_.stages + stage]; }

 private:
  std::uint32_t chunks() const { return static_cast<std::uint32_t>(setup_.layout.size()); }
  std::uint32_t stage_of(std::uint32_t chunk) const { return chunk % setup_.stages; }

  void run_replica(ReplicaId replica) {
    const Range own = micro_batches_of(replica, setup_.replicas, setup_.shards, setup_.micro_batches);
    const bool together = setup_.order == Order::one_by_one, reversed = setup_.order == Order::weights_reversed;
    const bool late = setup_.order == Order::backwards_first;
    for (std::uint32_t m = own.begin; m < own.end; ++m) {
      forward(replica.value, m);
      if (together || reversed) backward(replica.value, m);
      if (together) weights(replica.value, m);
    }
    if (together) return;
    if (late || reversed) {
      for (std::uint32_t m = own.end; m-- > own.begin && late;) backward(replica.value, m);
      for (std::uint32_t i = 0; i < own.size(); ++i) weights(replica.value, reversed ? own.end - 1 - i : own.begin + i);
      return;
    }
    for (std::uint32_t m = own.begin; m < own.end; ++m) backward(replica.value, m), weights(replica.value, m);
  }
  void forward(std::uint32_t r, std::uint32_t m) {
    Tensor x;
    for (std::uint32_t c = 0; c < chunks(); ++c) {
      StageModel& host = model(stage_of(c), r);
      if (!x.empty()) x.buffer()->charge_to(host.arena().shared_from_this());
      x = host.forward(ChunkId{c}, std::move(x), batches_[m]);
      EXPECT_EQ(x.empty(), c + 1 == chunks());
    }
  }
  void backward(std::uint32_t r, std::uint32_t m) {
    Tensor dy;
    for (std::uint32_t c = chunks(); c-- > 0;) {
      StageModel& host = model(stage_of(c), r);
      if (!dy.empty()) dy.buffer()->charge_to(host.arena().shared_from_this());
      dy = host.backward_input(ChunkId{c}, MicroBatch{m}, std::move(dy));
      EXPECT_EQ(dy.empty(), c == 0);
    }
  }
  void weights(std::uint32_t r, std::uint32_t m) {
    for (std::uint32_t c = 0; c < chunks(); ++c) model(stage_of(c), r).backward_weight(ChunkId{c}, MicroBatch{m});
  }

  // Every replica's subtrees go to every replica, which reduces what it owns.
  void reduce(std::uint32_t stage, GroupId g) {
    std::vector<Segment> segments;
    for (std::uint32_t r = 0; r < setup_.replicas; ++r)
      for (Segment& segment : model(stage, r).take_segments(g)) segments.push_back(std::move(segment));
    Floats& whole = now_.gradients[g.value];
    whole.assign(a_.elements(g), 0.0F);
    const auto scratch = Arena::make("scratch", Bytes{});
    evaluate_tree(a_, segments, setup_.shards, 0, whole, *scratch, setup_.controls.reduction);
    square_sums_.resize(models_.size());
    for (std::uint32_t r = 0; r < setup_.replicas; ++r)
      square_sums_[r * setup_.stages + stage].add(model(stage, r).reduce(g, segments));
  }
  void tie() {
    for (std::uint32_t r = 0; r < setup_.replicas; ++r) {
      StageModel &first = model(0, r), &last = model(stage_of(chunks() - 1), r);
      ExactSum& sum = square_sums_[r * setup_.stages];
      if (first.tie_role() == TieRole::both) {
        sum.add(first.tie({}));
        continue;
      }
      EXPECT_EQ(first.tie_role(), TieRole::embedding);
      EXPECT_EQ(last.tie_role(), TieRole::head);
      const Tensor up = first.prepared(first.tied_group()), down = last.prepared(last.tied_group());
      sum.add(first.tie(down));
      sum.add(last.tie(up));
    }
  }
  void gather(std::uint32_t stage) {
    for (const GroupId g : model(stage, 0).groups())
      for (std::uint32_t from = 0; from < setup_.replicas && !model(stage, 0).is_alias(g); ++from) {
        const Tensor part = model(stage, from).owned_parameters(g);
        for (std::uint32_t to = 0; to < setup_.replicas; ++to)
          if (to != from) model(stage, to).adopt_parameters(g, ReplicaId{from}, part);
      }
  }

  void look() {
    for (auto* all : {&now_.parameters, &now_.first_moments, &now_.second_moments}) all->resize(a_.groups());
    for (std::uint32_t s = 0; s < setup_.stages; ++s)
      for (const GroupId g : model(s, 0).groups()) {
        now_.parameters[g.value] = floats_of(model(s, 0).parameters(g));
        for (std::uint32_t r = 1; r < setup_.replicas; ++r)
          EXPECT_TRUE(same_bits(model(s, r).parameters(g).span(), now_.parameters[g.value]))
              << "group " << g.value << " of replica " << r << " differs from replica 0";
        const GroupId held = model(s, 0).is_alias(g) ? a_.embedding_group() : g;
        now_.first_moments[g.value] = assemble(s, held, &StageModel::first_moment);
        now_.second_moments[g.value] = assemble(s, held, &StageModel::second_moment);
      }
  }
  Floats assemble(std::uint32_t stage, GroupId g, const Tensor& (StageModel::*moment)(GroupId) const) {
    Floats whole(a_.elements(g));
    for (std::uint32_t r = 0; r < setup_.replicas; ++r) {
      const Tensor& packed = (model(stage, r).*moment)(g);
      std::size_t at = 0;
      each_owned_block(a_, g, ReplicaId{r}, setup_.replicas, [&](std::size_t first, std::size_t count) {
        std::copy_n(packed.data() + at, count, whole.begin() + static_cast<std::ptrdiff_t>(first));
        at += count;
      });
    }
    return whole;
  }

  JobSetup setup_;
  const Arithmetic& a_;
  std::vector<std::shared_ptr<Arena>> arenas_;
  std::vector<std::unique_ptr<StageModel>> models_;  // by replica, then stage
  Batches batches_;
  std::vector<ExactSum> square_sums_;  // as models_
  Snapshot now_;
};

inline History run_by_hand(const JobSetup& setup, std::uint32_t iterations = 3) {
  return HandDriven(setup).run(iterations);
}

/// The same training in one process that has no stages, no replicas and no blocks: unit after unit, the tree of the
/// shards written out, one step over whole groups.
class PlainProcess {
 public:
  explicit PlainProcess(JobSetup setup) : setup_(std::move(setup)), a_(*setup_.arithmetic) {
    for (std::uint32_t g = 0; g < a_.groups(); ++g)
      for (auto* all : {&weights_, &first_, &second_}) {
        all->emplace_back(*arena_, a_.elements({g}));
        std::fill_n(all->back().data(), all->back().size(), 0.0F);
      }
    for (std::uint32_t g = 0; g < a_.groups(); ++g)
      a_.initialise(a_.tied() && GroupId{g} == a_.head_group() ? a_.embedding_group() : GroupId{g}, weights_[g].span());
  }

  History run(std::uint32_t iterations) {
    History result;
    for (std::uint32_t k = 1; k <= iterations; ++k) result.push_back(iterate(Iteration{k}));
    return result;
  }

 private:
  using Gradients = std::vector<Floats>;

  Snapshot iterate(Iteration k) {
    LossSum loss;
    const Batches batches = setup_.batches(k);
    Snapshot now;
    now.gradients = tree(batches, 0, setup_.shards, loss);
    now.loss = loss.loss, now.tokens = loss.tokens;
    Gradients total = now.gradients;
    const std::uint32_t head = a_.head_group().value;
    if (a_.tied()) {
      a_.add(total[0], total[head], total[0]);
      total[head] = total[0];
    }
    for (std::uint32_t g = 0; g < total.size(); ++g)
      for (std::size_t i = 0; i < total[g].size() && !(a_.tied() && g == head); i += a_.block_elements())
        now.square_sum.add(
            a_.square_sum(std::span(total[g]).subspan(i, std::min(a_.block_elements(), total[g].size() - i))));
    const StepFactors factors = step_factors(setup_.optimizer, k.value, 100,
                                             clip_factor(setup_.optimizer, now.square_sum, now.tokens), now.tokens);
    for (std::uint32_t g = 0; g < a_.groups(); ++g) {
      a_.step({g}, 0, weights_[g].span(), first_[g].span(), second_[g].span(), total[g], factors);
      now.parameters.push_back(floats_of(weights_[g]));
      now.first_moments.push_back(floats_of(first_[g]));
      now.second_moments.push_back(floats_of(second_[g]));
    }
    return now;
  }
  Gradients tree(const Batches& batches, std::uint32_t begin, std::uint32_t end, LossSum& loss) {
    if (end - begin == 1) return shard(batches, begin, loss);
    Gradients left = tree(batches, begin, (begin + end) / 2, loss), right = tree(batches, (begin + end) / 2, end, loss);
    if (left.empty() || right.empty()) return left.empty() ? right : left;
    for (std::size_t g = 0; g < left.size(); ++g) a_.add(left[g], right[g], left[g]);
    return left;
  }
  Gradients shard(const Batches& batches, std::uint32_t s, LossSum& loss) {
    const Range own = micro_batches_of_shard(s, setup_.shards, setup_.micro_batches);
    if (own.size() == 0) return {};
    std::vector<Tensor> sums;
    for (std::uint32_t g = 0; g < a_.groups(); ++g) {
      sums.emplace_back(*arena_, a_.elements({g}));
      std::fill_n(sums.back().data(), sums.back().size(), 0.0F);
    }
    for (std::uint32_t m = own.begin; m < own.end; ++m) pass(*batches[m], sums, loss);
    Gradients result;
    for (const Tensor& t : sums) result.push_back(floats_of(t));
    return result;
  }
  void pass(const TokenBatch& b, std::vector<Tensor>& sums, LossSum& loss) {
    const BatchView view{b.iteration, b.micro_batch, b.packing.get(), b.inputs, b.targets};
    std::vector<Saved> saved(a_.units());
    Tensor x, dy;
    for (std::uint32_t u = 0; u < a_.units(); ++u)
      x = a_.forward({u}, of({u}, weights_), x, view, saved[u], loss, *arena_);
    for (std::uint32_t u = a_.units(); u-- > 0;)
      dy = a_.input_grad({u}, of({u}, weights_), saved[u], dy, view, *arena_);
    for (std::uint32_t u = 0; u < a_.units(); ++u) {
      auto gradients = of({u}, sums);
      a_.weight_grad({u}, saved[u], view, gradients, *arena_);
    }
  }
  std::vector<Tensor> of(UnitId unit, const std::vector<Tensor>& all) const {
    std::vector<Tensor> picked;
    for (const GroupId g : a_.groups_of(unit)) picked.push_back(all[g.value]);
    return picked;
  }

  JobSetup setup_;
  const Arithmetic& a_;
  std::shared_ptr<Arena> arena_ = Arena::make("plain", Bytes{});
  std::vector<Tensor> weights_, first_, second_;
};

}  // namespace stagecraft::test
