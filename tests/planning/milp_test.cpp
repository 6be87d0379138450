// The exact search against a mixed-integer program that COIN-OR CBC solves: another formulation, another solver, and in
// half of the cases the micro-batches may overtake each other. Skipped where there is no `cbc` (package coinor-cbc).
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>

#include "planning/exact.hpp"
#include "tests/planning/small_pipelines.hpp"

namespace stagecraft {
namespace {

constexpr char letters[] = {'f', 'b', 'w'};

bool have_cbc() { return std::system("command -v cbc >/dev/null 2>&1") == 0; }

// A linear program in the LP file format. A start variable per operator, and per pair of operators of one stage a
// binary `y_first_second`: the first runs before the second.
class Program {
 public:
  Program(const PipelineProblem& problem, bool index_order)
      : problem_(problem), stages_(problem.shape.stages), n_(problem.shape.micro_batches), index_order_(index_order) {
    for (const OperatorTimes& t : problem.times) horizon_ += n_ * t.sum().count() / unit;
    for (std::uint32_t b = 0; b + 1 < stages_; ++b)
      for (const Direction direction : {Direction::forward, Direction::backward})
        horizon_ += n_ * problem.crossing(direction, b).count() / unit;
    for (std::uint32_t s = 0; s < stages_; ++s) {
      for (std::uint32_t k = 0; k < n_; ++k) flow(s, k);
      pairs(s);
      if (!problem.caps.empty()) memory(s);
    }
  }

  std::string text() const {
    return fmt::format("Minimize\n obj: end\nSubject To\n{}Binaries\n{}End\n", constraints_, binaries_);
  }

 private:
  static constexpr std::int64_t unit = 1'000'000;  // the program counts ms
  struct Node {
    std::uint32_t stage = 0, kind = 0, k = 0;
    bool operator==(const Node&) const = default;
  };

  std::int64_t time(const Node& node) const {
    const OperatorTimes& t = problem_.times[node.stage];
    return (node.kind == 0 ? t.forward : node.kind == 1 ? t.backward_input : t.backward_weight).count() / unit;
  }
  static std::string name(const Node& node) { return fmt::format("{}{}_{}", letters[node.kind], node.stage, node.k); }
  void add(const std::string& constraint) { constraints_ += fmt::format(" c{}: {}\n", rows_++, constraint); }
  void follows(const Node& first, const Node& second, std::int64_t delay) {
    add(fmt::format("{} - {} >= {}", name(second), name(first), time(first) + delay));
  }

  // What one micro-batch needs.
  void flow(std::uint32_t s, std::uint32_t k) {
    follows({s, 0, k}, {s, 1, k}, 0);
    follows({s, 1, k}, {s, 2, k}, 0);
    if (s + 1 < stages_) {
      follows({s, 0, k}, {s + 1, 0, k}, problem_.crossing(Direction::forward, s).count() / unit);
      follows({s + 1, 1, k}, {s, 1, k}, problem_.crossing(Direction::backward, s).count() / unit);
    }
    add(fmt::format("end - {} >= {}", name({s, 2, k}), time({s, 2, k})));
  }

  // The order that is certain: empty when either may come first. Micro-batches are named by their first forward.
  std::optional<bool> known(const Node& a, const Node& b) const {
    if (a.k == b.k) return a.kind < b.kind;
    if (a.kind == b.kind && (index_order_ || (a.stage == 0 && a.kind == 0))) return a.k < b.k;
    if (index_order_ && a.kind < b.kind && a.k < b.k) return true;
    if (index_order_ && a.kind > b.kind && a.k > b.k) return false;
    return std::nullopt;
  }

  void pairs(std::uint32_t s) {
    for (std::uint32_t i = 0; i < 3 * n_; ++i) {
      for (std::uint32_t j = i + 1; j < 3 * n_; ++j) {
        const Node a{s, i / n_, i % n_}, b{s, j / n_, j % n_};
        if (const auto first = known(a, b)) {
          *first ? follows(a, b, 0) : follows(b, a, 0);
          continue;
        }
        const std::string y = fmt::format("y_{}_{}", name(a), name(b));
        binaries_ += " " + y + "\n";
        add(fmt::format("{} - {} - {} {} >= {}", name(b), name(a), horizon_, y, time(a) - horizon_));
        add(fmt::format("{} - {} + {} {} >= {}", name(a), name(b), horizon_, y, time(b)));
      }
    }
  }

  // Adds `sign` x (a runs before b) to a sum: a term, or a part of its constant.
  void count(const Node& a, const Node& b, int sign, std::string& terms, int& constant) const {
    if (a == b) return;
    if (const auto first = known(a, b)) {
      constant += *first ? sign : 0;
      return;
    }
    const bool straight = a.kind * n_ + a.k < b.kind * n_ + b.k;  // as `pairs` has named them
    const std::string y =
        straight ? fmt::format("y_{}_{}", name(a), name(b)) : fmt::format("y_{}_{}", name(b), name(a));
    constant += straight ? 0 : sign;
    terms += fmt::format(" {} {}", (sign > 0) == straight ? "+" : "-", y);
  }

  // When an operator that takes a place starts, those before it minus those that gave one back leave room for it.
  void memory(std::uint32_t s) {
    const StageCaps& caps = problem_.caps[s];
    const auto limit = [&](std::uint32_t takes, std::uint32_t gives, const std::optional<std::uint32_t>& cap) {
      for (std::uint32_t k = 0; cap && k < n_; ++k) {
        std::string terms;
        int constant = 1;
        for (std::uint32_t other = 0; other < n_; ++other) {
          count({s, takes, other}, {s, takes, k}, 1, terms, constant);
          count({s, gives, other}, {s, takes, k}, -1, terms, constant);
        }
        if (!terms.empty()) add(fmt::format("{} <= {}", terms, static_cast<int>(*cap) - constant));
      }
    };
    limit(0, 1, caps.activations);
    limit(1, 2, caps.pending_weights);
    limit(0, 2, caps.held);
  }

  const PipelineProblem& problem_;
  std::uint32_t stages_, n_;
  bool index_order_;
  std::int64_t horizon_ = 0;
  std::string constraints_, binaries_;
  int rows_ = 0;
};

class Cbc {
 public:
  Cbc() : folder_((std::filesystem::temp_directory_path() / "stagecraft-milp-XXXXXX").string()) {
    if (mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("no folder " + folder_);
  }
  ~Cbc() { std::filesystem::remove_all(folder_); }
  Cbc(const Cbc&) = delete;
  Cbc& operator=(const Cbc&) = delete;

  /// Empty when the solver has not found and proven the optimum within 20 s of processor time; most take 0.1 s.
  std::optional<Duration> minimum(const Program& program) const {
    std::ofstream(folder_ + "/case.lp") << program.text();
    const std::string command = fmt::format("cd {} && cbc case.lp -sec 20 -solve -solution answer >log 2>&1", folder_);
    if (std::system(command.c_str()) != 0) return std::nullopt;
    std::ifstream in(folder_ + "/answer");
    std::string line;
    std::getline(in, line);
    const std::string optimal = "Optimal - objective value ";
    if (line.rfind(optimal, 0) != 0) return std::nullopt;
    return std::chrono::milliseconds(std::llround(std::stod(line.substr(optimal.size()))));
  }

 private:
  std::string folder_;
};

// How many of `rounds` random cases the solver has proven; all those must agree.
int agreements(const char* name, int rounds, bool index_order, const small::Ranges& ranges) {
  Entropy draws(1, name);
  const Cbc cbc;
  int proven = 0;
  for (int round = 0; round < rounds; ++round) {
    const PipelineProblem problem = small::random_problem(draws, ranges);
    const auto minimum = cbc.minimum(Program(problem, index_order));
    if (!minimum) continue;
    ++proven;
    EXPECT_EQ(std::get<ExactResult>(exact_search(problem)).makespan, *minimum) << small::to_text(problem);
  }
  return proven;
}

TEST(MixedIntegerProgram, agrees_with_the_exact_search_in_index_order) {
  if (!have_cbc()) GTEST_SKIP() << "there is no cbc here: install coinor-cbc";
  EXPECT_GE(agreements("index order", 16, true, {3, 4, false}), 14);
}

TEST(MixedIntegerProgram, agrees_with_the_exact_search_when_micro_batches_may_overtake) {
  if (!have_cbc()) GTEST_SKIP() << "there is no cbc here: install coinor-cbc";
  EXPECT_GE(agreements("free order", 16, false, {3, 3, false}), 14);
}

}  // namespace
}  // namespace stagecraft
