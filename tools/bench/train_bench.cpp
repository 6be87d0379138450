// Our side of tools/bench/train: a long-lived process that runs one training iteration of a single stage per request.
//
// Requests are lines on standard input, each answered by one line of JSON: `step` runs an iteration, `peak` measures
// the fused multiply-add peak, `case PATH` writes first weights and batches for the peer (before the first step),
// `quit` ends. The first line of output says what was built.
#include <fmt/format.h>

#include <chrono>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/job_plan.hpp"
#include "tools/bench/fma_peak.hpp"
#include "tools/bench/job.hpp"
#include "tools/bench/peer_case.hpp"

namespace stagecraft::bench {
namespace {

constexpr std::uint32_t distinct_iterations = 4;  // then their batches come again

constexpr const char* job_text = R"(version: 1
job: { name: train-bench, seed: 7, iterations: 1000000 }
model: { layers: 8, width: 256, heads: 8, hidden: 688, context: 256, vocabulary: bytes, tied_embeddings: false }
data: { sources: [{ files: none }], micro_batch_tokens: 256 }
training:
  micro_batches: 8
  optimizer: { kind: adamw, learning_rate: 3e-4, weight_decay: 0.1, clip: 1.0 }
pipeline: { stages: 1 }
nodes: [{ name: n0, listen: "127.0.0.1:0", devices: [{ kind: cpu, memory: 16GiB }] }]
)";

class Worker {
 public:
  explicit Worker(const Topology& topology)
      : topology_(topology),
        arithmetic_(plan_job(topology).arithmetic.front()),
        stage_(arithmetic_, topology.training.micro_batches, topology.training.logical_shards,
               topology.training.optimizer, topology.job.iterations) {
    const std::vector<std::vector<std::uint32_t>> documents{documents_of(topology)};
    for (std::uint32_t k = 0; k < distinct_iterations; ++k)
      batches_.push_back(draw_batches(topology.job.seed, Iteration{k}, topology.training.micro_batches, documents,
                                      topology.model.vocabulary));
  }

  nlohmann::json about() const {
    return {{"name", fmt::format("stagecraft {}", name_of(topology_.training.kernels))},
            {"flops", flops()},
            {"tokens", topology_.data->micro_batch_tokens * topology_.training.micro_batches},
            {"micro_batches", topology_.training.micro_batches}};
  }

  nlohmann::json step() {
    const auto wall = std::chrono::steady_clock::now();
    const double cpu = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
    const StepOutcome outcome = stage_.iterate(batches_[steps_++ % batches_.size()]);
    const double cpu_after = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - wall;
    return {{"cpu", cpu_after - cpu},
            {"wall", elapsed.count()},
            {"loss", outcome.loss_sum / static_cast<double>(outcome.tokens)}};
  }

  nlohmann::json write_case(const std::string& path) {
    PeerCase out(path);
    out.model(topology_.model);
    out.optimizer(topology_.training.optimizer, topology_.job.iterations);
    out.tensors("first", *arithmetic_, [&](GroupId g) -> const Tensor& { return stage_.parameters(g); });
    for (const Batches& b : batches_) out.iteration(b);
    out.close();
    return {{"written", path}};
  }

 private:
  // Documents as long as the context, side by side, until the micro-batch is full.
  static std::vector<std::uint32_t> documents_of(const Topology& topology) {
    const std::uint32_t tokens = topology.data->micro_batch_tokens;
    std::vector<std::uint32_t> lengths(tokens / topology.model.context, topology.model.context);
    if (const std::uint32_t rest = tokens % topology.model.context; rest > 0) lengths.push_back(rest);
    return lengths;
  }

  /// Of one iteration, as the arithmetic counts them.
  double flops() const {
    const std::uint32_t tokens = topology_.data->micro_batch_tokens;
    const std::uint32_t document = std::min(tokens, topology_.model.context);
    double sum = 0;
    for (std::uint32_t u = 0; u < arithmetic_->units(); ++u)
      for (const auto kind : {OperatorKind::forward, OperatorKind::backward_input, OperatorKind::backward_weight})
        sum += arithmetic_->flops(UnitId{u}, kind, tokens, document);
    return sum * topology_.training.micro_batches;
  }

  Topology topology_;
  std::shared_ptr<const Arithmetic> arithmetic_;
  OneStage stage_;
  std::vector<Batches> batches_;
  std::size_t steps_ = 0;
};

void serve(Worker& worker) {
  const auto answer = [](const nlohmann::json& what) { std::cout << what.dump() << std::endl; };
  answer(worker.about());
  for (std::string line; std::getline(std::cin, line) && line != "quit";) {
    if (line == "step") {
      answer(worker.step());
    } else if (line == "peak") {
      answer({{"peak", measure_fma_peak()}});
    } else if (line.starts_with("case ")) {
      answer(worker.write_case(line.substr(5)));
    } else {
      throw std::invalid_argument("unknown request '" + line + "'; expected step, peak, case PATH or quit");
    }
  }
}

int serve_requests(int argc, char** argv) {
  try {
    Worker worker(load_job("train_bench", job_text, {argv + 1, argv + argc}));
    serve(worker);
  } catch (const std::exception& problem) {
    std::cerr << "train_bench: " << problem.what() << "\narguments are overrides of its job, such as "
              << "training.kernels=exact\n";
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace stagecraft::bench

int main(int argc, char** argv) { return stagecraft::bench::serve_requests(argc, argv); }
