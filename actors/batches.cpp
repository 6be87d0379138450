#include "actors/batches.hpp"

#include <fmt/format.h>

#include "actors/runtime.hpp"
#include "model/corpus.hpp"

namespace stagecraft {

namespace {

// Emulated devices compute nothing: a micro-batch is its number.
std::shared_ptr<const TokenBatch> numbered_batch(Iteration iteration, MicroBatch micro_batch) {
  static const auto packing = std::make_shared<const Packing>(Packing{{0, 1}});
  return std::make_shared<TokenBatch>(TokenBatch{iteration, micro_batch, packing, {0}, {0}});
}

}  // namespace

Batches open_batches(World& world, const Topology& topology) {
  if (topology.emulated()) return {numbered_batch, {}};
  auto loaded =
      Corpus::load(*topology.data, topology.model, world.disk(), {topology.job.seed, topology.training.micro_batches});
  if (const auto* errors = std::get_if<CorpusErrors>(&loaded))
    throw CannotStart(fmt::format("{}", fmt::join(*errors, "\n")));
  auto corpus = std::make_shared<const Corpus>(std::move(std::get<Corpus>(loaded)));
  if (const auto shortage = corpus->shortage()) throw CannotStart(*shortage);
  const auto source = [corpus](Iteration iteration, MicroBatch micro_batch) {
    return std::make_shared<const TokenBatch>(corpus->batch(iteration, micro_batch));
  };
  return {source, corpus->sha256()};
}

}  // namespace stagecraft
