// Trains small models of several shapes for a few steps and writes all that a peer needs to do the same, and to
// compare: first weights, batches, learning rates, the gradients of step 1, losses and norms of all steps, last
// weights.
#include <cstdio>
#include <exception>

#include "model/kernels/kernels_onednn.hpp"
#include "model/llama.hpp"
#include "tools/bench/peer_case.hpp"

namespace stagecraft {
namespace {

struct Case {
  const char* name;
  ModelSpec model;
  std::uint32_t micro_batches = 1, shards = 1;
  std::vector<std::vector<std::uint32_t>> documents;  // lengths in each micro-batch
  KernelKind kernels = KernelKind::exact;
};

ModelSpec shape(std::uint32_t layers, std::uint32_t width, std::uint32_t heads, std::uint32_t kv_heads,
                std::uint32_t hidden, bool tied) {
  ModelSpec spec;
  spec.layers = layers, spec.width = width, spec.heads = heads, spec.kv_heads = kv_heads, spec.hidden = hidden;
  spec.context = 256, spec.vocabulary = 257, spec.tied_embeddings = tied;
  return spec;
}

std::vector<Case> cases() {
  return {
      {"one_document", shape(2, 64, 4, 4, 172, false), 1, 1, {{128}}},
      {"documents_side_by_side", shape(2, 64, 4, 4, 172, false), 3, 1, {{40, 1, 70, 17}, {128}, {5, 90}}},
      {"grouped_heads", shape(2, 96, 6, 2, 250, false), 4, 2, {{100, 28}, {64, 64}}},
      {"one_key_head", shape(1, 60, 5, 1, 100, false), 2, 2, {{200}, {31, 33, 35}}},
      {"tied_tables", shape(2, 64, 4, 2, 172, true), 4, 4, {{128}, {64, 32, 32}}},
      {"deep", shape(8, 32, 2, 2, 86, false), 2, 1, {{96, 32}}},
      {"onednn", shape(2, 96, 6, 2, 250, false), 4, 2, {{100, 28}, {64, 64}}, KernelKind::onednn},
  };
}

// Clipping bites in the first steps, the warm-up ends within the run, and the rate falls after it.
OptimizerSpec optimizer() {
  OptimizerSpec o;
  o.learning_rate = 3e-3, o.weight_decay = 0.1, o.clip = 0.5;
  o.schedule = RateSchedule::cosine, o.warmup_steps = 5;
  return o;
}

void write(const Case& c, const std::string& folder) {
  constexpr std::uint32_t steps = 20;
  bench::PeerCase out(folder + "/" + c.name);
  if (c.kernels == KernelKind::onednn && !onednn_available()) return out.skip(onednn_missing());
  const auto arithmetic = std::make_shared<LlamaArithmetic>(c.model, 11, kernels_of(c.kernels));
  bench::OneStage stage(arithmetic, c.micro_batches, c.shards, optimizer(), steps);
  const auto parameters = [&](GroupId g) -> const Tensor& { return stage.parameters(g); };
  out.model(c.model);
  out.optimizer(optimizer(), steps);
  out.tensors("first", *arithmetic, parameters);
  for (std::uint32_t k = 1; k <= steps; ++k) {
    // Two batches in turn, so that there is something to learn.
    const auto batches = bench::draw_batches(5, Iteration{k % 2}, c.micro_batches, c.documents, c.model.vocabulary);
    stage.keep_gradients(k == 1);
    out.iteration(batches);
    out.outcome(stage.iterate(batches));
    if (k == 1)
      out.tensors("gradient", *arithmetic, [&](GroupId g) -> const Tensor& { return stage.gradients()[g.value]; });
  }
  out.tensors("last", *arithmetic, parameters);
  out.close();
}

}  // namespace
}  // namespace stagecraft

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: test_parity_dump FOLDER\n", stderr);
    return 2;
  }
  try {
    for (const auto& c : stagecraft::cases()) stagecraft::write(c, argv[1]);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "test_parity_dump: %s\n", problem.what());
    return 1;
  }
}
