#include "planning/partition.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <tuple>

#include "planning/bug.hpp"
#include "planning/random.hpp"

namespace stagecraft {
namespace {

using Layout = std::vector<std::uint32_t>;

TEST(Partition, an_even_layout_gives_the_remainder_to_the_first_chunks) {
  EXPECT_EQ(even_layout(30, 4), (Layout{8, 8, 7, 7}));
  EXPECT_EQ(even_layout(8, 4), (Layout{2, 2, 2, 2}));
  EXPECT_EQ(even_layout(5, 1), (Layout{5}));
}

TEST(Partition, more_chunks_than_layers_leave_the_last_ones_empty) {
  EXPECT_EQ(even_layout(3, 5), (Layout{1, 1, 1, 0, 0}));
}

TEST(Partition, an_even_layout_adds_up_and_differs_by_at_most_one_for_every_pair) {
  for (std::uint32_t layers = 1; layers <= 100; ++layers) {
    for (std::uint32_t chunks = 1; chunks <= 64; ++chunks) {
      const Layout layout = even_layout(layers, chunks);
      ASSERT_EQ(layout.size(), chunks);
      ASSERT_EQ(std::accumulate(layout.begin(), layout.end(), 0U), layers);
      ASSERT_TRUE(std::is_sorted(layout.rbegin(), layout.rend()));
      ASSERT_LE(layout.front() - layout.back(), 1U);
      ASSERT_FALSE(check_layout(layout, layers, chunks));
    }
  }
}

TEST(Partition, a_layout_of_the_wrong_length_is_refused_with_both_lengths) {
  const auto problem = check_layout(Layout{8, 8, 8}, 24, 4);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->kind, LayoutProblem::Kind::length);
  EXPECT_EQ(problem->expected, 4U);
  EXPECT_EQ(problem->got, 3U);
}

TEST(Partition, a_layout_with_the_wrong_sum_is_refused_with_both_sums) {
  const auto problem = check_layout(Layout{7, 7, 7, 7}, 30, 4);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->kind, LayoutProblem::Kind::sum);
  EXPECT_EQ(problem->expected, 30U);
  EXPECT_EQ(problem->got, 28U);
}

TEST(Partition, a_sum_beyond_32_bits_does_not_wrap_around_to_the_right_one) {
  const Layout layout{0xffffffffU, 31U};  // 30 in 32 bits
  const auto problem = check_layout(layout, 30, 2);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->got, 0xffffffffULL + 31);
}

TEST(Partition, no_chunks_at_all_is_a_bug) { EXPECT_THROW(even_layout(3, 0), Bug); }

using namespace std::chrono_literals;

PartitionProblem problem_of(std::uint32_t stages, std::uint32_t chunks, std::vector<PartitionUnit> units) {
  PartitionProblem problem;
  problem.shape.stages = stages;
  problem.shape.chunks = chunks;
  problem.units = std::move(units);
  return problem;
}

std::vector<PartitionUnit> equal_layers(std::uint32_t count, Duration time = 10ms) {
  return std::vector<PartitionUnit>(count, PartitionUnit{UnitKind::layer, time, Bytes{1}, Bytes{1}});
}

// E, t x layers, m x predictions, L, with the given times in layer equivalents of 10 ms.
std::vector<PartitionUnit> whole_model(std::uint32_t layers, std::uint32_t predictions, int embedding, int head) {
  std::vector<PartitionUnit> units{{UnitKind::embedding, embedding * 10ms, {}, {}}};
  for (const PartitionUnit& unit : equal_layers(layers)) units.push_back(unit);
  for (std::uint32_t k = 0; k < predictions; ++k) units.push_back({UnitKind::prediction, 10ms, Bytes{1}, Bytes{1}});
  units.push_back({UnitKind::head, head * 10ms, {}, {}});
  return units;
}

Partition solved(const PartitionProblem& problem) { return std::get<Partition>(make_partition(problem)); }

void expect_whole(const Partition& partition, const PartitionProblem& problem) {
  ASSERT_EQ(partition.units.size(), problem.shape.total_chunks());
  ASSERT_EQ(std::accumulate(partition.units.begin(), partition.units.end(), 0U), problem.units.size());
  ASSERT_GE(*std::min_element(partition.units.begin(), partition.units.end()), 1U);
  const auto layers = std::count_if(problem.units.begin(), problem.units.end(),
                                    [](const PartitionUnit& unit) { return unit.kind == UnitKind::layer; });
  ASSERT_FALSE(check_layout(partition.layers, static_cast<std::uint32_t>(layers), problem.shape.total_chunks()));
}

TEST(Partition, seven_layers_on_three_stages_take_two_no_ops_on_the_early_ones) {
  const auto problem = problem_of(3, 1, equal_layers(7));
  const Partition partition = solved(problem);
  EXPECT_EQ(partition.layers, (Layout{2, 2, 3}));
  EXPECT_EQ(partition.no_ops, (Layout{1, 1, 0}));
  EXPECT_EQ(partition.no_op_slots(), (Layout{2, 5}));
  EXPECT_EQ(to_text(partition, problem), "t t n | t t n | t t t");
  EXPECT_TRUE(partition.proven);
}

TEST(Partition, sixteen_layers_on_six_stages_take_two_no_ops) {
  const Partition partition = solved(problem_of(6, 1, equal_layers(16)));
  EXPECT_EQ(*std::max_element(partition.units.begin(), partition.units.end()), 3U);
  EXPECT_EQ(partition.no_op_slots().size(), 2U);
}

TEST(Partition, layers_that_others_dropped_are_all_there) {
  const std::tuple<std::uint32_t, std::uint32_t, std::uint32_t> cases[] = {{30, 4, 1}, {80, 8, 4}, {80, 8, 2}};
  for (const auto& [layers, stages, chunks] : cases) {
    for (const Placement placement : {Placement::loop, Placement::v}) {
      auto problem = problem_of(stages, chunks, equal_layers(layers));
      problem.shape.placement = placement;
      const Partition partition = solved(problem);
      expect_whole(partition, problem);
      const Duration even = (layers + stages - 1) / stages * 10ms;
      EXPECT_EQ(*std::max_element(partition.stage_time.begin(), partition.stage_time.end()), even);
      std::uint32_t next = 0;  // every unit once, in order
      const std::string text = to_text(partition, problem);
      for (const char letter : text) next += letter == 't' ? 1 : 0;
      EXPECT_EQ(next, layers);
    }
  }
}

TEST(Partition, padding_goes_to_the_chunks_with_embedding_head_and_prediction) {
  const auto problem = problem_of(4, 1, whole_model(12, 1, 1, 1));
  const Partition partition = solved(problem);
  EXPECT_EQ(to_text(partition, problem), "E t t n | t t t t | t t t t | t t m L");
  // A head that weighs as much as a whole stage stands alone, without a layer.
  const auto heavy = problem_of(4, 1, whole_model(12, 0, 0, 5));
  EXPECT_EQ(to_text(solved(heavy), heavy), "E t t t t | t t t t n | t t t t n | L n n n n");
}

TEST(Partition, fewer_units_than_chunks_are_refused_with_both_numbers) {
  const auto shortage = std::get<PartitionShortage>(make_partition(problem_of(3, 2, equal_layers(5))));
  EXPECT_EQ(shortage.kind, PartitionShortage::Kind::units);
  EXPECT_EQ(to_text(shortage), "5 units for 6 chunks, and every chunk needs one; use fewer stages or chunks per stage");
  EXPECT_EQ(solved(problem_of(3, 2, equal_layers(6))).units, (Layout{1, 1, 1, 1, 1, 1}));
}

TEST(Partition, memory_moves_layers_from_early_stages_and_its_lack_names_the_stage_and_what_would_do) {
  auto problem = problem_of(2, 1, equal_layers(8));
  problem.in_flight = {4, 1};  // 5 and 2 bytes per layer
  problem.memory = {Bytes{15}, Bytes{100}};
  EXPECT_EQ(solved(problem).units, (Layout{3, 5}));
  EXPECT_EQ(solved(problem).stage_memory, (std::vector<Bytes>{{15}, {10}}));
  problem.memory = {Bytes{4}, Bytes{11}};  // the cuts 1+7 lack 1 and 3 bytes, 2+6 lack 6 and 1
  const auto shortage = std::get<PartitionShortage>(make_partition(problem));
  EXPECT_EQ(shortage.kind, PartitionShortage::Kind::memory);
  EXPECT_EQ(shortage.stage, StageId{1});
  EXPECT_EQ(shortage.available, 11U);
  EXPECT_EQ(shortage.needed, 14U);
  EXPECT_NE(to_text(shortage).find("stage 1 has 11 B, and 14 B would do"), std::string::npos);
  problem.memory = {Bytes{5}, Bytes{14}};
  EXPECT_EQ(solved(problem).units, (Layout{1, 7}));
}

__extension__ using Wide = unsigned __int128;
// Slowest chunk, slowest stage, squares, peak memory, in the order of the objective.
using Score = std::tuple<Duration, Duration, Wide, std::uint64_t>;

std::optional<Score> score_of(const PartitionProblem& problem, const Layout& units) {
  std::vector<Duration> stage_time(problem.shape.stages);
  std::vector<std::uint64_t> memory(problem.shape.stages);
  Duration slowest{};
  Wide squares = 0;
  std::size_t next = 0;
  for (std::uint32_t c = 0; c < units.size(); ++c) {
    Duration time{};
    const std::uint32_t stage = problem.shape.stage_of({c}).value;
    for (std::uint32_t k = 0; k < units[c]; ++k, ++next) {
      time += problem.units[next].time;
      memory[stage] += problem.in_flight[c] * problem.units[next].activation.value + problem.units[next].state.value;
    }
    stage_time[stage] += time;
    slowest = std::max(slowest, time);
    squares += static_cast<Wide>(time.count()) * static_cast<Wide>(time.count());
  }
  for (std::uint32_t s = 0; s < problem.shape.stages; ++s)
    if (!problem.memory.empty() && memory[s] > problem.memory[s].value) return std::nullopt;
  return Score{slowest, *std::max_element(stage_time.begin(), stage_time.end()), squares,
               *std::max_element(memory.begin(), memory.end())};
}

void for_every_cut(std::uint32_t units, std::uint32_t chunks, Layout& cut, const std::function<void()>& use) {
  if (chunks == 1) {
    cut.push_back(units);
    use();
    cut.pop_back();
    return;
  }
  for (std::uint32_t k = 1; k + chunks - 1 <= units; ++k) {
    cut.push_back(k);
    for_every_cut(units - k, chunks - 1, cut, use);
    cut.pop_back();
  }
}

PartitionProblem random_problem(Entropy& dice) {
  const std::pair<std::uint32_t, std::uint32_t> shapes[] = {{1, 1}, {3, 1}, {4, 1}, {2, 2}, {3, 2}, {2, 3}};
  const auto& [stages, chunks] = shapes[dice.below(std::size(shapes))];
  std::vector<PartitionUnit> units(dice.between(stages * chunks, 10));
  for (PartitionUnit& unit : units)
    unit = {UnitKind::layer, static_cast<std::int64_t>(dice.below(10)) * 1ms, Bytes{dice.below(5)},
            Bytes{dice.below(5)}};
  PartitionProblem problem = problem_of(stages, chunks, units);
  problem.shape.placement = dice.below(2) == 0 ? Placement::loop : Placement::v;
  for (std::uint32_t c = 0; c < stages * chunks; ++c)
    problem.in_flight.push_back(static_cast<std::uint32_t>(dice.between(1, 4)));
  for (std::uint32_t s = 0; s < stages && units.size() % 2 == 0; ++s) problem.memory.push_back({dice.between(15, 60)});
  return problem;
}

TEST(Partition, is_the_best_of_all_cuts_in_random_small_cases) {
  Entropy dice(11, "cuts");
  int impossible = 0, possible = 0;
  for (int i = 0; i < 600; ++i) {
    const PartitionProblem problem = random_problem(dice);
    std::optional<Score> best;
    Layout cut, first;
    for_every_cut(static_cast<std::uint32_t>(problem.units.size()), problem.shape.total_chunks(), cut, [&] {
      const auto score = score_of(problem, cut);
      if (score && (!best || *score < *best)) best = score, first = cut;
    });
    const auto outcome = make_partition(problem);
    const auto* partition = std::get_if<Partition>(&outcome);
    ASSERT_EQ(partition != nullptr, best.has_value());
    (best ? possible : impossible) += 1;
    if (!partition) continue;
    ASSERT_TRUE(partition->proven);
    ASSERT_EQ(score_of(problem, partition->units), best) << to_text(*partition, problem);
    if (problem.shape.chunks == 1) {
      ASSERT_EQ(partition->units, first);  // the shortest early chunks among equals
    }
    expect_whole(*partition, problem);
  }
  EXPECT_GT(possible, 300);
  EXPECT_GT(impossible, 20);
}

TEST(Partition, what_a_shortage_asks_for_is_the_least_that_helps) {
  Entropy dice(12, "shortage");
  int checked = 0;
  for (int i = 0; i < 600; ++i) {
    PartitionProblem problem = random_problem(dice);
    const auto outcome = make_partition(problem);
    const auto* shortage = std::get_if<PartitionShortage>(&outcome);
    if (!shortage) continue;
    const std::uint64_t lack = shortage->needed - shortage->available;
    EXPECT_EQ(problem.memory[shortage->stage.value].value, shortage->available);
    for (Bytes& memory : problem.memory) memory.value += lack - 1;
    EXPECT_TRUE(std::holds_alternative<PartitionShortage>(make_partition(problem)));
    for (Bytes& memory : problem.memory) memory.value += 1;
    EXPECT_TRUE(std::holds_alternative<Partition>(make_partition(problem)));
    ++checked;
  }
  EXPECT_GT(checked, 20);
}

TEST(Partition, a_hundred_unequal_layers_on_sixteen_stages_are_proven) {
  Entropy dice(13, "large");
  auto units = equal_layers(100);
  for (PartitionUnit& unit : units)
    unit.time = Duration{static_cast<std::int64_t>(dice.between(5'000'000, 15'000'000))};
  auto problem = problem_of(16, 1, units);
  for (std::uint32_t s = 0; s < 16; ++s) problem.in_flight.push_back(16 - s);
  const Partition partition = solved(problem);
  EXPECT_TRUE(partition.proven);
  expect_whole(partition, problem);
}

}  // namespace
}  // namespace stagecraft
