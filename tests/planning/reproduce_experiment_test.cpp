// One system on one pipeline with slow links: the numbers that can be checked by hand, and what must hold of all.
#include "planning/reproduce/experiment.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "planning/replay.hpp"
#include "planning/reproduce/fixed_costs.hpp"
#include "planning/reproduce/published.hpp"

namespace stagecraft::reproduce {
namespace {

using namespace std::chrono_literals;

// Four stages of 10 ms operators, twelve micro-batches.
Setting worked_example() {
  Setting setting;
  setting.shape = {4, 1, {0}, 12};
  setting.times.assign(4, {10ms, 10ms, 10ms});
  return setting;
}

Setting with(Setting setting, const std::vector<std::uint32_t>& links, Duration delay, Injection injection,
             Memory memory) {
  for (const std::uint32_t link : links) setting.slow.push_back({link, delay});
  setting.injection = injection;
  setting.memory = memory;
  return setting;
}

Duration late(const Setting& setting, std::uint32_t link, Duration delay, System system) {
  return play(with(setting, {link}, delay, Injection::latency, Memory::free), system).makespan;
}

TEST(WorkedExample, is_followed_for_the_delay_alone_where_its_fixed_order_pays_again_and_again) {
  struct Row {
    Duration delay, in_order, followed;
  };
  for (const Row& row :
       {Row{0ms, 390ms, 390ms}, Row{10ms, 400ms, 400ms}, Row{20ms, 440ms, 410ms}, Row{40ms, 560ms, 430ms}}) {
    SCOPED_TRACE(row.delay.count());
    EXPECT_EQ(late(worked_example(), 0, row.delay, System::delegated), row.in_order);
    EXPECT_EQ(late(worked_example(), 0, row.delay, System::follow), row.followed);
    EXPECT_EQ(late(worked_example(), 0, row.delay, System::ours), row.followed);
  }
  EXPECT_EQ(late(worked_example(), 0, 20ms, System::pipemorph), 410ms);
  EXPECT_EQ(late(worked_example(), 0, 20ms, System::one_f_one_b), 650ms);
}

TEST(LargeModel, bears_sixty_ms_on_its_first_or_last_link_where_memory_is_free) {
  const Setting setting = setting_of(published_model(ModelSize::b14), Memory::free);
  EXPECT_EQ(play(setting, System::follow).makespan, 663ms);
  for (const std::uint32_t link : {0U, 6U})
    for (const System system : {System::follow, System::ours, System::pipemorph})
      EXPECT_EQ(late(setting, link, 60ms, system), 723ms) << link << " " << name_of(system);
  EXPECT_EQ(late(setting, 6, 60ms, System::delegated), 1482ms);
}

TEST(Budgets, a_delay_up_to_the_budget_is_paid_once) {
  for (const auto& [size, longest] : {std::pair{ModelSize::b7, 30ms}, {ModelSize::b14, 60ms}, {ModelSize::b60, 50ms}}) {
    const PublishedModel model = published_model(size);
    const Setting setting = setting_of(model, Memory::free);
    const Duration healthy = play(setting, System::ours).makespan;
    for (std::uint32_t link = 0; link + 1 < model.shape.stages; link += 2)
      for (Duration delay = 10ms; delay <= longest; delay += 10ms)
        EXPECT_LE(late(setting, link, delay, System::ours), 1.01 * (healthy + delay))
            << model.name << " " << link << " " << delay.count();
  }
}

// The cases of the figures with slow links, under an injection and a memory.
struct Slow {
  std::string name;
  Setting setting;
};
std::vector<Slow> slow_cases(int stride) {
  std::vector<Slow> cases;
  int i = 0;
  for (const SlowLinkCase& c : slow_link_cases()) {
    if (c.delay_ms == 0 || i++ % stride != 0) continue;
    const PublishedModel model = published_model(c.model);
    for (const Injection injection : {Injection::occupancy, Injection::latency})
      for (const Memory memory : {Memory::equal, Memory::free})
        cases.push_back(
            {std::string(model.name) + " " + std::to_string(c.figure) + " " + std::to_string(c.delay_ms) + " " +
                 std::string(name_of(injection)) + " " + std::string(name_of(memory)),
             with(setting_of(model, memory), c.links, std::chrono::milliseconds(c.delay_ms), injection, memory)});
  }
  return cases;
}

TEST(Systems, ours_is_never_slower_than_the_published_planner_or_than_following_without_a_word_of_the_delay) {
  for (const Slow& slow : slow_cases(2)) {
    const Duration ours = play(slow.setting, System::ours).makespan;
    EXPECT_LE(ours, play(slow.setting, System::pipemorph).makespan) << slow.name;
    EXPECT_LE(ours, play(slow.setting, System::follow).makespan) << slow.name;
    EXPECT_LE(ours, play(slow.setting, System::delegated).makespan) << slow.name;
  }
}

TEST(Systems, where_memory_is_equal_nobody_holds_more_than_zero_bubble) {
  for (const Slow& slow : slow_cases(3)) {
    if (slow.setting.memory == Memory::free) continue;
    const std::uint32_t most = 2 * slow.setting.shape.stages - 1;
    for (const System system : {System::one_f_one_b, System::zero_bubble, System::delegated, System::pipemorph,
                                System::readiness, System::follow, System::ours})
      EXPECT_LE(play(slow.setting, system).held, most) << slow.name << " " << name_of(system);
  }
}

TEST(Systems, delegating_helps_against_occupancy_and_is_no_matter_to_latency) {
  for (const Slow& slow : slow_cases(2)) {
    const Duration direct = play(slow.setting, System::zero_bubble).makespan,
                   delegated = play(slow.setting, System::delegated).makespan;
    if (slow.setting.injection == Injection::latency)
      EXPECT_EQ(delegated, direct) << slow.name;
    else
      EXPECT_LE(delegated, direct) << slow.name;
  }
}

// What one more ms costs. The published values: 25, 48, 16 and 1 ms per ms (14B, link 6-7).
TEST(Slopes, are_the_published_ones) {
  const Setting healthy = setting_of(published_model(ModelSize::b14), Memory::equal);
  const auto slope = [&](System system, Memory memory) {
    const auto at = [&](Duration delay) {
      return play(with(healthy, {6}, delay, Injection::occupancy, memory), system).makespan;
    };
    return static_cast<double>((at(60ms) - at(40ms)).count()) / 20e6;
  };
  EXPECT_NEAR(slope(System::one_f_one_b, Memory::equal), 25, 1);
  EXPECT_EQ(slope(System::zero_bubble, Memory::equal), 48);
  EXPECT_EQ(slope(System::delegated, Memory::equal), 16);
  EXPECT_EQ(slope(System::pipemorph, Memory::free), 1);
  EXPECT_EQ(slope(System::ours, Memory::free), 1);
}

TEST(Routes, a_device_ordered_one_admits_one_send_and_a_delegated_one_has_a_lane_per_delegate) {
  const Setting setting = with(worked_example(), {1}, 40ms, Injection::occupancy, Memory::equal);
  const PipelineProblem ordered = links_of(setting, System::zero_bubble),
                        paired = links_of(setting, System::one_f_one_b), delegated = links_of(setting, System::ours);
  EXPECT_EQ(ordered.forward_links[0].queue, 1U);
  EXPECT_FALSE(ordered.forward_links[0].shared);
  EXPECT_TRUE(ordered.forward_links[1].shared);
  EXPECT_FALSE(paired.forward_links[1].shared);
  EXPECT_EQ(ordered.forward_links[1].occupancy, 40ms);
  EXPECT_FALSE(delegated.backward_links[1].queue);
  EXPECT_EQ(delegated.backward_links[1].lanes, 6U);
  EXPECT_EQ(delegated.backward_links[0].lanes, 1U);
  EXPECT_EQ(delegates_for(30ms), 3U);
}

TEST(FixedCosts, are_what_is_left_of_the_published_healthy_iteration) {
  for (const ModelSize size : {ModelSize::b7, ModelSize::b14, ModelSize::b30, ModelSize::b60}) {
    const PublishedModel model = published_model(size);
    const FixedCosts fixed = fixed_costs(size);
    const Setting setting = setting_of(model, Memory::equal);
    for (const System system : {System::one_f_one_b, System::zero_bubble, System::delegated}) {
      const Duration whole = play(setting, system).makespan + fixed.of(system, false);
      EXPECT_NEAR(static_cast<double>(whole.count()) / 1e9, *model.healthy.of(system), 1e-6) << model.name;
      EXPECT_GT(fixed.of(system, false), 0ms) << model.name;
    }
    EXPECT_EQ(fixed.of(System::ours, false), fixed.of(System::zero_bubble, false));
    EXPECT_EQ(fixed.of(System::ours, true), fixed.of(System::delegated, true));
  }
}

}  // namespace
}  // namespace stagecraft::reproduce
