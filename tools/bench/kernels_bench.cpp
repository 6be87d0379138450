// Speed of the kernels on this CPU: the fused multiply-add peak of registers alone, matrix products of the shapes that
// a block has, and whole F, B and W of a block. Single thread; CPU time.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "model/llama.hpp"
#include "planning/random.hpp"

namespace stagecraft {
namespace {

/// Ten independent chains in registers only: what no kernel of this instruction set can exceed.
void register_peak(benchmark::State& state) {
  if (!available(Isa::avx2)) {
    state.SkipWithError("this CPU has no AVX2 and FMA");
    return;
  }
  constexpr int chains = 10, rounds = 10000;
  for (auto _ : state) {
    asm volatile("vzeroall" ::
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10");
    for (int r = 0; r < rounds; ++r)
      asm volatile(
          "vfmadd231ps %%ymm10, %%ymm10, %%ymm0\n vfmadd231ps %%ymm10, %%ymm10, %%ymm1\n"
          "vfmadd231ps %%ymm10, %%ymm10, %%ymm2\n vfmadd231ps %%ymm10, %%ymm10, %%ymm3\n"
          "vfmadd231ps %%ymm10, %%ymm10, %%ymm4\n vfmadd231ps %%ymm10, %%ymm10, %%ymm5\n"
          "vfmadd231ps %%ymm10, %%ymm10, %%ymm6\n vfmadd231ps %%ymm10, %%ymm10, %%ymm7\n"
          "vfmadd231ps %%ymm10, %%ymm10, %%ymm8\n vfmadd231ps %%ymm10, %%ymm10, %%ymm9\n" ::
              : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9");
    asm volatile("vzeroupper" :::);
  }
  state.counters["FLOP/s"] = benchmark::Counter(2.0 * 8 * chains * rounds * static_cast<double>(state.iterations()),
                                                benchmark::Counter::kIsRate);
}

std::vector<float> noise(std::size_t count) {
  std::vector<float> numbers(count);
  for (std::size_t i = 0; i < count; ++i)
    numbers[i] = static_cast<float>(static_cast<double>(keyed(1, i) >> 11) * 0x1p-53 - 0.5);
  return numbers;
}

struct Shape {
  const char* name;
  bool transpose_a, transpose_b;
  std::size_t m, n, k;
};

const Shape shapes[] = {
    {"forward_NT", false, true, 512, 256, 256},       {"forward_NT", false, true, 512, 768, 256},
    {"forward_NT", false, true, 512, 1408, 256},      {"forward_NT", false, true, 512, 256, 704},
    {"forward_NT", false, true, 256, 1024, 1024},     {"input_grad_NN", false, false, 512, 256, 256},
    {"input_grad_NN", false, false, 512, 256, 1408},  {"input_grad_NN", false, false, 512, 704, 256},
    {"input_grad_NN", false, false, 256, 1024, 1024}, {"weight_grad_TN", true, false, 256, 256, 512},
    {"weight_grad_TN", true, false, 1408, 256, 512},  {"weight_grad_TN", true, false, 256, 704, 512},
    {"weight_grad_TN", true, false, 1024, 1024, 256}, {"scores_NT", false, true, 64, 256, 32},
    {"values_NN", false, false, 64, 32, 256},         {"keys_grad_TN", true, false, 256, 32, 64},
    {"scores_NT", false, true, 64, 512, 64},          {"values_NN", false, false, 64, 64, 512},
    {"head_NT", false, true, 512, 257, 256},
};

void matrix_product(benchmark::State& state, Isa isa, Shape s) {
  const auto a = noise(s.m * s.k), b = noise(s.n * s.k);
  std::vector<float> c(s.m * s.n);
  const MatrixProduct product{.m = s.m,
                              .n = s.n,
                              .k = s.k,
                              .a = a.data(),
                              .lda = s.transpose_a ? s.m : s.k,
                              .transpose_a = s.transpose_a,
                              .b = b.data(),
                              .ldb = s.transpose_b ? s.k : s.n,
                              .transpose_b = s.transpose_b,
                              .c = c.data(),
                              .ldc = s.n};
  for (auto _ : state) {
    kernels(isa).matmul(product);
    benchmark::ClobberMemory();
  }
  const double flops = 2.0 * static_cast<double>(s.m * s.n * s.k);
  state.counters["FLOP/s"] =
      benchmark::Counter(flops * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

/// A block of the quickstart's size, on one micro-batch of documents of equal length.
struct BlockRun {
  explicit BlockRun(std::uint32_t document) : arithmetic(spec(), 1) {
    weights.assign(1, Tensor(*arena, arithmetic.elements({1})));
    arithmetic.initialise({1}, weights[0].span());
    gradients.assign(1, Tensor(*arena, arithmetic.elements({1})));
    std::fill_n(gradients[0].data(), gradients[0].size(), 0.0F);
    x = Tensor(*arena, tokens * std::size_t{spec().width});
    const auto numbers = noise(x.size());
    std::copy(numbers.begin(), numbers.end(), x.data());
    for (std::uint32_t t = document; t <= tokens; t += document) packing.starts.push_back(t);
    view.packing = &packing;
  }
  static ModelSpec spec() {
    ModelSpec s;
    s.layers = 8, s.width = 256, s.heads = 8, s.kv_heads = 8, s.hidden = 704, s.context = 512;
    return s;
  }
  void forward() {
    saved = {};
    y = arithmetic.forward({1}, weights, x, view, saved, loss, *arena);
  }
  void input_grad() { dx = arithmetic.input_grad({1}, weights, saved, x, view, *arena); }
  void weight_grad() { arithmetic.weight_grad({1}, saved, view, gradients, *arena); }

  static constexpr std::uint32_t tokens = 512;
  std::shared_ptr<Arena> arena = Arena::make("bench", Bytes{});
  LlamaArithmetic arithmetic;
  std::vector<Tensor> weights, gradients;
  Tensor x, y, dx;
  Packing packing;
  BatchView view;
  Saved saved;
  LossSum loss;
};

void block(benchmark::State& state, OperatorKind kind, std::uint32_t document) {
  BlockRun run(document);
  for (auto _ : state) {
    if (kind != OperatorKind::forward) state.PauseTiming();
    run.forward();
    if (kind == OperatorKind::backward_input) state.ResumeTiming();
    if (kind != OperatorKind::forward) run.input_grad();
    if (kind == OperatorKind::backward_weight) {
      state.ResumeTiming();
      run.weight_grad();
    }
  }
  const double flops = run.arithmetic.flops({1}, kind, BlockRun::tokens, document);
  state.counters["FLOP/s"] =
      benchmark::Counter(flops * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

void list_benchmarks() {
  benchmark::RegisterBenchmark("register_peak/avx2", register_peak);
  for (const Shape& s : shapes)
    for (Isa isa : {Isa::avx2, Isa::scalar}) {
      if (!available(isa)) continue;
      const std::string name = std::string("matmul/") + name_of(isa) + "/" + s.name + "/" + std::to_string(s.m) + "x" +
                               std::to_string(s.n) + "x" + std::to_string(s.k);
      benchmark::RegisterBenchmark(name.c_str(), matrix_product, isa, s);
    }
  for (std::uint32_t document : {512U, 128U, 32U})
    for (auto [letter, kind] : {std::pair{"F", OperatorKind::forward},
                                {"B", OperatorKind::backward_input},
                                {"W", OperatorKind::backward_weight}})
      benchmark::RegisterBenchmark(
          (std::string("block/") + letter + "/documents_of_" + std::to_string(document)).c_str(), block, kind,
          document);
}

}  // namespace
}  // namespace stagecraft

int main(int argc, char** argv) {
  stagecraft::list_benchmarks();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
