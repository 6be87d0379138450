// Speed of the kernels on this CPU, as shares of what its registers alone can do: matrix products of the shapes that a
// model has, F, B and W of one block, and whole training iterations. One thread, CPU time.
//
// Every figure is measured next to a run of the register peak, all figures in turn, several rounds over: what else the
// machine does meets them alike. A share is the median of (rate / peak of the same moment).
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/kernels/kernels_onednn.hpp"
#include "model/llama.hpp"
#include "model/optimizer.hpp"
#include "planning/random.hpp"
#include "tools/bench/fma_peak.hpp"

namespace stagecraft {
namespace {

double cpu_seconds() { return bench::cpu_seconds(CLOCK_THREAD_CPUTIME_ID); }

std::vector<float> noise(std::size_t count) {
  std::vector<float> numbers(count);
  for (std::size_t i = 0; i < count; ++i)
    numbers[i] = static_cast<float>(static_cast<double>(keyed(1, i) >> 11) * 0x1p-53 - 0.5);
  return numbers;
}

/// One thing to measure. `prepare` is not timed.
struct Case {
  std::string group, name, kernels;
  double flops = 0;
  std::function<void()> prepare = [] {};
  std::function<void()> run = [] {};
  std::vector<double> rates{}, shares{}, seconds{};  // one per round
};

struct Shape {
  const char* name;
  bool transpose_a, transpose_b;
  std::size_t m, n, k;
};

// Of the model below in one micro-batch of 2048 tokens and in eight of 256, then larger ones.
const Shape shapes[] = {
    {"forward qkv", false, true, 2048, 768, 256},
    {"forward gate, up", false, true, 2048, 1376, 256},
    {"forward down", false, true, 2048, 256, 688},
    {"input grad down", false, false, 2048, 688, 256},
    {"input grad gate, up", false, false, 2048, 256, 1376},
    {"weight grad gate, up", true, false, 1376, 256, 2048},
    {"weight grad down", true, false, 256, 688, 2048},
    {"forward gate, up", false, true, 256, 1376, 256},
    {"input grad gate, up", false, false, 256, 256, 1376},
    {"weight grad gate, up", true, false, 1376, 256, 256},
    {"forward", false, true, 1024, 1024, 1024},
    {"input grad", false, false, 1024, 1024, 1024},
    {"weight grad", true, false, 1024, 1024, 1024},
};

Case product_case(const char* kernels_name, const Kernels& kernels, Shape s) {
  const auto a = std::make_shared<std::vector<float>>(noise(s.m * s.k));
  const auto b = std::make_shared<std::vector<float>>(noise(s.n * s.k));
  const auto c = std::make_shared<std::vector<float>>(s.m * s.n);
  const MatrixProduct product{.m = s.m,
                              .n = s.n,
                              .k = s.k,
                              .a = a->data(),
                              .lda = s.transpose_a ? s.m : s.k,
                              .transpose_a = s.transpose_a,
                              .b = b->data(),
                              .ldb = s.transpose_b ? s.k : s.n,
                              .transpose_b = s.transpose_b,
                              .c = c->data(),
                              .ldc = s.n,
                              .accumulate = s.transpose_a};
  const double flops = 2.0 * static_cast<double>(s.m * s.n * s.k);
  const int times = std::max(1, static_cast<int>(5e8 / flops));
  Case result{.group = "product",
              .name = fmt::format("{} {}x{}x{}", s.name, s.m, s.n, s.k),
              .kernels = kernels_name,
              .flops = flops * times};
  result.prepare = [c] { std::fill(c->begin(), c->end(), 0.0F); };
  result.run = [=, &kernels] {
    for (int i = 0; i < times; ++i) kernels.matmul(product);
    (void)a, (void)b;  // kept alive
  };
  return result;
}

/// The model of the whole-iteration figures, with random tokens in documents of 256.
class Run {
 public:
  Run(const Kernels& kernels, std::uint32_t micro_batches, std::uint32_t tokens) : arithmetic_(spec(), 1, kernels) {
    for (std::uint32_t g = 0; g < arithmetic_.groups(); ++g)
      for (auto* tensors : {&weights_, &gradients_, &moments1_, &moments2_}) {
        tensors->emplace_back(*arena_, arithmetic_.elements({g}));
        std::fill_n(tensors->back().data(), tensors->back().size(), 0.0F);
      }
    for (std::uint32_t g = 0; g < arithmetic_.groups(); ++g) arithmetic_.initialise({g}, weights_[g].span());
    for (std::uint32_t m = 0; m < micro_batches; ++m) {
      batches_.push_back(std::make_unique<Batch>());
      for (std::uint32_t t = document; t <= tokens; t += document) batches_.back()->packing.starts.push_back(t);
      for (std::uint32_t t = 0; t < tokens; ++t) {
        batches_.back()->inputs.push_back(static_cast<Token>(bounded(keyed(1, m, t), spec().vocabulary)));
        batches_.back()->targets.push_back(static_cast<Token>(bounded(keyed(2, m, t), spec().vocabulary)));
      }
    }
  }

  static ModelSpec spec() {
    ModelSpec s;
    s.layers = 8, s.width = 256, s.heads = 8, s.kv_heads = 8, s.hidden = 0, s.context = document, s.vocabulary = 257;
    return s;
  }

  /// F, B and W of every micro-batch, then one step.
  void iterate() {
    for (Tensor& g : gradients_) std::fill_n(g.data(), g.size(), 0.0F);
    LossSum loss;
    for (std::uint32_t m = 0; m < batches_.size(); ++m) {
      std::vector<Saved> saved(arithmetic_.units());
      Tensor x;
      for (std::uint32_t u = 0; u < arithmetic_.units(); ++u)
        x = arithmetic_.forward({u}, of(weights_, u), x, view(m), saved[u], loss, *arena_);
      for (std::uint32_t u = arithmetic_.units(); u-- > 0;)
        x = arithmetic_.input_grad({u}, of(weights_, u), saved[u], x, view(m), *arena_);
      for (std::uint32_t u = 0; u < arithmetic_.units(); ++u) {
        auto gradients = of(gradients_, u);
        arithmetic_.weight_grad({u}, saved[u], view(m), gradients, *arena_);
      }
    }
    step(loss.tokens);
  }
  double flops() const {
    double sum = 0;
    for (std::uint32_t u = 0; u < arithmetic_.units(); ++u)
      for (const OperatorKind kind :
           {OperatorKind::forward, OperatorKind::backward_input, OperatorKind::backward_weight})
        sum += flops(u, kind);
    return sum * static_cast<double>(batches_.size());
  }

  /// One operator of block 1 on micro-batch 0; those before it must have run.
  void run(OperatorKind kind) {
    if (input_.empty()) {
      input_ = Tensor(*arena_, view(0).inputs.size() * spec().width);
      const auto numbers = noise(input_.size());
      std::copy(numbers.begin(), numbers.end(), input_.data());
    }
    if (kind == OperatorKind::forward) {
      saved_ = {};
      output_ = arithmetic_.forward({1}, of(weights_, 1), input_, view(0), saved_, loss_, *arena_);
    } else if (kind == OperatorKind::backward_input) {
      output_ = arithmetic_.input_grad({1}, of(weights_, 1), saved_, input_, view(0), *arena_);
    } else {
      auto gradients = of(gradients_, 1);
      arithmetic_.weight_grad({1}, saved_, view(0), gradients, *arena_);
    }
  }
  double flops(std::uint32_t unit, OperatorKind kind) const {
    return arithmetic_.flops({unit}, kind, batches_[0]->packing.tokens(), document);
  }

  static constexpr std::uint32_t document = 256;

 private:
  struct Batch {
    Packing packing;
    std::vector<Token> inputs, targets;
  };
  BatchView view(std::uint32_t m) const {
    const Batch& b = *batches_[m];
    return {Iteration{1}, MicroBatch{m}, &b.packing, b.inputs, b.targets};
  }
  std::vector<Tensor> of(const std::vector<Tensor>& all, std::uint32_t unit) const {
    std::vector<Tensor> picked;
    for (const GroupId g : arithmetic_.groups_of(UnitId{unit})) picked.push_back(all[g.value]);
    return picked;
  }
  void step(std::uint64_t tokens) {
    ExactSum squares;
    for (const Tensor& g : gradients_)
      for (std::size_t at = 0; at < g.size(); at += arithmetic_.block_elements())
        squares.add(
            arithmetic_.square_sum(g.span().subspan(at, std::min(arithmetic_.block_elements(), g.size() - at))));
    const OptimizerSpec optimizer;
    const StepFactors factors = step_factors(optimizer, 1, 100, clip_factor(optimizer, squares, tokens), tokens);
    for (std::uint32_t g = 0; g < arithmetic_.groups(); ++g)
      arithmetic_.step({g}, 0, weights_[g].span(), moments1_[g].span(), moments2_[g].span(), gradients_[g].span(),
                       factors);
  }

  std::shared_ptr<Arena> arena_ = Arena::make("bench", Bytes{});
  LlamaArithmetic arithmetic_;
  std::vector<Tensor> weights_, gradients_, moments1_, moments2_;
  std::vector<std::unique_ptr<Batch>> batches_;
  Tensor input_, output_;
  Saved saved_;
  LossSum loss_;
};

void add_model_cases(std::vector<Case>& cases, const char* name, const Kernels& kernels) {
  for (const std::uint32_t micro_batches : {1U, 8U}) {
    const std::uint32_t tokens = 2048 / micro_batches;
    const auto run = std::make_shared<Run>(kernels, micro_batches, tokens);
    const auto operator_case = [&](const char* letter, OperatorKind kind) {
      Case c{.group = "block",
             .name = fmt::format("{} of {} tokens", letter, tokens),
             .kernels = name,
             .flops = run->flops(1, kind)};
      c.run = [run, kind] { run->run(kind); };
      cases.push_back(std::move(c));
    };
    operator_case("F", OperatorKind::forward);
    operator_case("B", OperatorKind::backward_input);
    operator_case("W", OperatorKind::backward_weight);
    Case c{.group = "iteration",
           .name = fmt::format("{} micro-batches of {}", micro_batches, tokens),
           .kernels = name,
           .flops = run->flops()};
    c.run = [run] { run->iterate(); };
    cases.push_back(std::move(c));
  }
}

double median(std::vector<double> x) {
  std::nth_element(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2), x.end());
  return x[x.size() / 2];
}

void measure(std::vector<Case>& cases, int rounds, std::vector<double>& peaks) {
  for (Case& c : cases) c.prepare(), c.run();
  for (int r = 0; r < rounds; ++r)
    for (Case& c : cases) {
      c.prepare();
      const double peak = bench::measure_fma_peak();
      const double start = cpu_seconds();
      c.run();
      c.seconds.push_back(cpu_seconds() - start);
      c.rates.push_back(c.flops / c.seconds.back());
      c.shares.push_back(c.rates.back() / peak);
      peaks.push_back(peak);
    }
}

void print_table(const std::vector<Case>& cases, Isa isa, const std::vector<double>& peaks) {
  const double best_peak = *std::max_element(peaks.begin(), peaks.end());
  fmt::print("register peak ({}): median {:.1f}, best {:.1f} GFLOP/s\n\n", name_of(isa), median(peaks) * 1e-9,
             best_peak * 1e-9);
  fmt::print("{:<10} {:<7} {:<36} {:>9} {:>9} {:>8} {:>8} {:>8}\n", "what", "kernels", "case", "ms", "GFLOP/s", "best",
             "of peak", "best");
  for (const Case& c : cases) {
    const double best = *std::max_element(c.rates.begin(), c.rates.end());
    fmt::print("{:<10} {:<7} {:<36} {:>9.2f} {:>9.1f} {:>8.1f} {:>7.1f}% {:>7.1f}%\n", c.group, c.kernels, c.name,
               median(c.seconds) * 1e3, median(c.rates) * 1e-9, best * 1e-9, 100 * median(c.shares),
               100 * best / best_peak);
  }
}

void print_json(const std::vector<Case>& cases, Isa isa, const std::vector<double>& peaks) {
  const double best_peak = *std::max_element(peaks.begin(), peaks.end());
  fmt::print("{{\"isa\": \"{}\", \"peak_flops\": {{\"median\": {:.6g}, \"best\": {:.6g}}}, \"cases\": [", name_of(isa),
             median(peaks), best_peak);
  const char* comma = "";
  for (const Case& c : cases) {
    const double best = *std::max_element(c.rates.begin(), c.rates.end());
    fmt::print(
        "{}\n  {{\"group\": \"{}\", \"kernels\": \"{}\", \"case\": \"{}\", \"flops\": {:.6g}, "
        "\"seconds\": {:.6g}, \"rate\": {:.6g}, \"best_rate\": {:.6g}, \"share\": {:.4f}, \"best_share\": {:.4f}}}",
        comma, c.group, c.kernels, c.name, c.flops, median(c.seconds), median(c.rates), best, median(c.shares),
        best / best_peak);
    comma = ",";
  }
  fmt::print("\n]}}\n");
}

struct Options {
  bool json = false;
  int rounds = 9;
  std::string only;
};

int run(const Options& options) {
  const Isa isa = best_isa();
  if (isa == Isa::scalar) {
    fmt::print(stderr, "kernels_bench: this CPU has no AVX2 and FMA; the scalar kernels are not meant to be fast\n");
    return 1;
  }
  std::vector<Case> cases;
  for (const Shape& s : shapes) {
    cases.push_back(product_case("exact", kernels(isa), s));
    if (onednn_available()) cases.push_back(product_case("onednn", onednn_kernels(), s));
  }
  add_model_cases(cases, "exact", kernels(isa));
  if (onednn_available()) add_model_cases(cases, "onednn", onednn_kernels());
  if (!onednn_available()) fmt::print(stderr, "no onednn: {}\n", onednn_missing());
  std::erase_if(cases, [&](const Case& c) { return !options.only.empty() && c.group != options.only; });
  std::vector<double> peaks;
  measure(cases, options.rounds, peaks);
  (options.json ? print_json : print_table)(cases, isa, peaks);
  return 0;
}

}  // namespace
}  // namespace stagecraft

int main(int argc, char** argv) {
  stagecraft::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--json") {
      options.json = true;
    } else if (word == "--rounds" && i + 1 < argc && std::atoi(argv[i + 1]) > 0) {
      options.rounds = std::atoi(argv[++i]);
    } else if (word == "--only" && i + 1 < argc) {
      options.only = argv[++i];
    } else {
      fmt::print(stderr, "usage: kernels_bench [--json] [--rounds N] [--only product|block|iteration]\n");
      return 2;
    }
  }
  return stagecraft::run(options);
}
