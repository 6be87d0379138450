// The decisions of one stage, event by event, as printed effects.
#include "planning/stage_machine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planning/bug.hpp"
#include "tests/planning/pipelines.hpp"

namespace stagecraft::pipelines {
namespace {

using stage_event::Choose;
using stage_event::Wanted;
using testing::HasSubstr;

using Texts = std::vector<std::string>;

// A stage with the chunks `chunks` of a model of `total` chunks.
StagePlan plan_of(std::vector<std::uint32_t> chunks, std::uint32_t total, std::uint32_t micro_batches,
                  std::uint32_t first = 0) {
  StagePlan plan;
  for (const std::uint32_t c : chunks) plan.chunks.push_back({c});
  plan.first = {first};
  plan.micro_batches = micro_batches;
  plan.starts_model = chunks.front() == 0;
  plan.ends_model = chunks.back() + 1 == total;
  return plan;
}

StagePlan middle(std::uint32_t micro_batches) { return plan_of({1}, 3, micro_batches); }

Texts step(StageMachine& machine, const StageEvent& event) {
  Texts texts;
  for (const StageEffect& effect : machine.step(event)) texts.push_back(stagecraft::to_text(effect));
  return texts;
}

StageEvent input(std::uint32_t chunk, std::uint32_t micro_batch) {
  return stage_event::Arrived{{chunk}, Direction::forward, {micro_batch}};
}
StageEvent gradient(std::uint32_t chunk, std::uint32_t micro_batch) {
  return stage_event::Arrived{{chunk}, Direction::backward, {micro_batch}};
}
StageEvent finished(std::string_view op) { return stage_event::Finished{parse_operator(op).value()}; }

// What the stage starts when it may choose, "" for nothing.
std::string chosen(StageMachine& machine) {
  for (const StageEffect& effect : machine.step(Choose{}))
    if (const auto* start = std::get_if<stage_effect::Start>(&effect)) {
      const auto* op = std::get_if<Operator>(&start->op);
      return op ? to_text(*op) : stagecraft::to_text(effect);
    }
  return "";
}

// Chooses and finishes until nothing can run; every operator of the stage's own, in order.
std::string run_dry(StageMachine& machine) {
  std::string all;
  for (std::string op = chosen(machine); !op.empty(); op = chosen(machine)) {
    all += (all.empty() ? "" : " ") + op;
    machine.step(finished(op));
  }
  return all;
}

TEST(StageMachine, an_arrival_arms_one_choice_and_the_choice_starts_what_is_ready) {
  StageMachine stage(middle(2));
  EXPECT_EQ(step(stage, input(1, 0)), Texts{"arm"});
  EXPECT_EQ(step(stage, input(1, 1)), Texts{}) << "armed already";
  EXPECT_EQ(step(stage, Choose{}), (Texts{"adopt forward of micro-batch 0 in chunk 1", "start 1F0"}));
}

TEST(StageMachine, a_middle_stage_hands_on_in_both_directions) {
  StageMachine stage(middle(1));
  step(stage, input(1, 0));
  step(stage, Choose{});
  EXPECT_EQ(step(stage, finished("1F0")), (Texts{"emit forward of micro-batch 0 from chunk 1", "arm"}));
  EXPECT_EQ(step(stage, Choose{}), Texts{}) << "the gradient is not here";
  EXPECT_EQ(step(stage, gradient(1, 0)), Texts{"arm"}) << "the fruitless choice has disarmed it";
  EXPECT_EQ(step(stage, Choose{}), (Texts{"adopt backward of micro-batch 0 in chunk 1", "start 1B0"}));
  EXPECT_EQ(step(stage, finished("1B0")), (Texts{"emit backward of micro-batch 0 from chunk 1", "arm"}));
  EXPECT_EQ(step(stage, Choose{}), Texts{"start 1W0"});
  EXPECT_FALSE(stage.finished());
  EXPECT_EQ(step(stage, finished("1W0")), (Texts{"accumulated micro-batch 0 of chunk 1, the last", "arm"}));
  EXPECT_TRUE(stage.finished());
}

TEST(StageMachine, the_first_stage_gives_no_slot_back_for_tokens_and_sends_no_gradient) {
  StageMachine stage(plan_of({0}, 2, 1));
  step(stage, input(0, 0));
  EXPECT_EQ(step(stage, Choose{}), Texts{"start 0F0"});
  EXPECT_EQ(step(stage, finished("0F0")), (Texts{"emit forward of micro-batch 0 from chunk 0", "arm"}));
  step(stage, gradient(0, 0));
  EXPECT_EQ(step(stage, Choose{}), (Texts{"adopt backward of micro-batch 0 in chunk 0", "start 0B0"}));
  EXPECT_EQ(step(stage, finished("0B0")), Texts{"arm"});
}

TEST(StageMachine, the_last_stage_makes_its_own_gradient) {
  StageMachine stage(plan_of({1}, 2, 1));
  step(stage, input(1, 0));
  EXPECT_EQ(step(stage, Choose{}), (Texts{"adopt forward of micro-batch 0 in chunk 1", "start 1F0"}));
  EXPECT_EQ(step(stage, finished("1F0")), Texts{"arm"});
  EXPECT_EQ(step(stage, Choose{}), Texts{"start 1B0"});
  EXPECT_EQ(step(stage, finished("1B0")), (Texts{"emit backward of micro-batch 0 from chunk 1", "arm"}));
}

TEST(StageMachine, events_while_an_operator_runs_start_nothing) {
  StageMachine stage(middle(2));
  step(stage, input(1, 0));
  step(stage, Choose{});
  EXPECT_EQ(step(stage, input(1, 1)), Texts{});
  EXPECT_EQ(step(stage, Choose{}), Texts{});
  EXPECT_EQ(step(stage, Wanted{{7}}), Texts{});
}

TEST(StageMachine, a_fused_backward_sends_its_gradient_and_its_weight_gradient_at_its_end) {
  StagePlan plan = middle(2);
  plan.dispatch = Dispatch::in_order;
  plan.order = {{F, {1}, {0}}, {F, {1}, {1}}, {X, {1}, {0}}, {X, {1}, {1}}};
  StageMachine stage(plan);
  for (const StageEvent& event : {input(1, 0), input(1, 1), gradient(1, 0), gradient(1, 1)}) stage.step(event);
  EXPECT_EQ(chosen(stage), "1F0");
  stage.step(finished("1F0"));
  EXPECT_EQ(chosen(stage), "1F1");
  stage.step(finished("1F1"));
  EXPECT_EQ(step(stage, Choose{}), (Texts{"adopt backward of micro-batch 0 in chunk 1", "start 1X0"}));
  EXPECT_EQ(step(stage, finished("1X0")),
            (Texts{"emit backward of micro-batch 0 from chunk 1", "accumulated micro-batch 0 of chunk 1", "arm"}));
  EXPECT_EQ(chosen(stage), "1X1");
  EXPECT_EQ(step(stage, finished("1X1")), (Texts{"emit backward of micro-batch 1 from chunk 1",
                                                 "accumulated micro-batch 1 of chunk 1, the last", "arm"}));
  EXPECT_TRUE(stage.finished());
  EXPECT_EQ(stage.peaks().activations, 2u);
  EXPECT_EQ(stage.peaks().pending_weights, 0u) << "both halves end together";
  EXPECT_EQ(stage.peaks().held, 2u);
}

TEST(StageMachine, a_static_stage_waits_for_the_head_of_its_list_whatever_else_is_ready) {
  StagePlan plan = middle(2);
  plan.dispatch = Dispatch::in_order;
  plan.order = {{F, {1}, {0}}, {F, {1}, {1}}, {X, {1}, {0}}, {X, {1}, {1}}};
  StageMachine stage(plan);
  stage.step(input(1, 1));
  EXPECT_EQ(chosen(stage), "");
  stage.step(input(1, 0));
  EXPECT_EQ(run_dry(stage), "1F0 1F1");
}

TEST(StageMachine, a_reactive_stage_runs_what_is_there) {
  StageMachine stage(middle(3));
  stage.step(input(1, 2));
  EXPECT_EQ(run_dry(stage), "1F2");
  stage.step(input(1, 1));
  stage.step(input(1, 0));
  EXPECT_EQ(run_dry(stage), "1F0 1F1") << "of several, the lowest";
}

TEST(StageMachine, backward_comes_before_forward_and_forward_before_weights) {
  StageMachine stage(middle(3));
  for (const std::uint32_t m : {0, 1}) stage.step(input(1, m));
  run_dry(stage);
  for (const StageEvent& event : {gradient(1, 1), gradient(1, 0), input(1, 2)}) stage.step(event);
  EXPECT_EQ(run_dry(stage), "1B0 1B1 1F2 1W0 1W1");
}

TEST(StageMachine, of_one_micro_batch_backward_takes_the_deepest_chunk_and_forward_the_first) {
  StageMachine stage(plan_of({1, 3}, 6, 2));
  for (const StageEvent& event : {input(3, 0), input(1, 0), input(1, 1), input(3, 1)}) stage.step(event);
  EXPECT_EQ(run_dry(stage), "1F0 3F0 1F1 3F1");
  for (const StageEvent& event : {gradient(1, 0), gradient(1, 1), gradient(3, 1), gradient(3, 0)}) stage.step(event);
  EXPECT_EQ(run_dry(stage), "3B0 1B0 3B1 1B1 1W0 3W0 1W1 3W1");
}

TEST(StageMachine, weight_gradients_of_a_chunk_wait_for_the_one_before) {
  StageMachine stage(middle(2));
  for (const StageEvent& event : {input(1, 0), input(1, 1), gradient(1, 1)}) stage.step(event);
  EXPECT_EQ(run_dry(stage), "1F0 1F1 1B1") << "1W1 comes after 1W0";
  stage.step(gradient(1, 0));
  EXPECT_EQ(run_dry(stage), "1B0 1W0 1W1");

  StagePlan careless = middle(2);  // negative control
  careless.free_weight_order = true;
  StageMachine other(careless);
  for (const StageEvent& event : {input(1, 0), input(1, 1), gradient(1, 1)}) other.step(event);
  EXPECT_EQ(run_dry(other), "1F0 1F1 1B1 1W1");
}

TEST(StageMachine, service_operators_run_when_nothing_else_can_in_the_order_of_the_requests) {
  StageMachine stage(middle(1));
  EXPECT_EQ(step(stage, Wanted{{9}}), Texts{"arm"});
  step(stage, Wanted{{4}});
  step(stage, input(1, 0));
  EXPECT_EQ(chosen(stage), "1F0") << "the pipeline first";
  step(stage, finished("1F0"));
  EXPECT_EQ(chosen(stage), "start service 9");
  step(stage, gradient(1, 0));
  EXPECT_EQ(step(stage, stage_event::Finished{ServiceOperator{9}}), Texts{"arm"});
  EXPECT_EQ(chosen(stage), "1B0") << "the gradient came meanwhile";
  step(stage, finished("1B0"));
  EXPECT_EQ(chosen(stage), "1W0");
  step(stage, finished("1W0"));
  EXPECT_EQ(stage.explain(), "all operators done, a service operator is due");
  EXPECT_EQ(chosen(stage), "start service 4");
  step(stage, stage_event::Finished{ServiceOperator{4}});
  EXPECT_EQ(stage.explain(), "all operators done");
}

TEST(StageMachine, each_cap_holds_back_what_it_counts_until_a_place_is_free) {
  StagePlan plan = middle(3);
  plan.caps.activations = 1;
  StageMachine warmup(plan);
  for (const std::uint32_t m : {0, 1, 2}) warmup.step(input(1, m));
  EXPECT_EQ(run_dry(warmup), "1F0");
  EXPECT_EQ(warmup.explain(), "idle; next 1B0 waits for its gradient from chunk 2");
  warmup.step(gradient(1, 0));
  EXPECT_EQ(run_dry(warmup), "1B0 1F1 1W0") << "a warm-up place is free when B ends";

  plan.caps.activations.reset();
  plan.caps.held = 1;
  StageMachine held(plan);
  for (const std::uint32_t m : {0, 1, 2}) held.step(input(1, m));
  EXPECT_EQ(run_dry(held), "1F0");
  held.step(gradient(1, 0));
  EXPECT_EQ(run_dry(held), "1B0 1W0 1F1") << "an activation place is free when W ends";

  plan.caps.held.reset();
  plan.caps.pending_weights = 1;
  StageMachine pending(plan);
  for (const std::uint32_t m : {0, 1}) pending.step(input(1, m)), pending.step(gradient(1, m));
  EXPECT_EQ(run_dry(pending), "1F0 1B0 1F1 1W0 1B1 1W1");
  EXPECT_EQ(pending.peaks().pending_weights, 1u);
}

TEST(StageMachine, the_lowest_micro_batch_keeps_a_place_for_each_of_its_chunks) {
  StagePlan plan = plan_of({1, 3}, 6, 3);
  plan.caps.held = 3;
  StageMachine stage(plan);
  for (const std::uint32_t m : {1, 2}) stage.step(input(1, m));
  EXPECT_EQ(run_dry(stage), "1F1") << "3 free, 2 kept for micro-batch 0: one for 1, none for 2";
  stage.step(input(1, 0));
  EXPECT_EQ(run_dry(stage), "1F0") << "the second place of micro-batch 0 stays free";
  stage.step(input(3, 1));
  EXPECT_EQ(run_dry(stage), "");
  stage.step(input(3, 0));
  EXPECT_EQ(run_dry(stage), "3F0");

  plan.rule = CapsRule::greedy;  // the negative control gives the places away, and micro-batch 0 finds none
  StageMachine greedy(plan);
  for (const StageEvent& event : {input(1, 1), input(1, 2), input(3, 1), input(1, 0)}) greedy.step(event);
  EXPECT_EQ(run_dry(greedy), "1F0 1F1 3F1");
}

TEST(StageMachine, micro_batches_are_counted_from_the_first_of_the_replica) {
  StageMachine stage(plan_of({1}, 2, 2, 6));
  stage.step(input(1, 6));
  stage.step(input(1, 7));
  EXPECT_EQ(run_dry(stage), "1F6 1B6 1F7 1B7 1W6 1W7");
  EXPECT_TRUE(stage.finished());
}

TEST(StageMachine, broken_promises_are_bugs) {
  StageMachine stage(middle(2));
  stage.step(input(1, 0));
  EXPECT_THROW(stage.step(input(1, 0)), Bug) << "the same input twice";
  stage.step(gradient(1, 0));
  EXPECT_THROW(stage.step(gradient(1, 0)), Bug) << "the same gradient twice";
  EXPECT_THROW(stage.step(input(2, 0)), Bug) << "a chunk of another stage";
  EXPECT_THROW(stage.step(input(1, 2)), Bug) << "a micro-batch that does not exist";
  EXPECT_THROW(stage.step(finished("1F0")), Bug) << "nothing was started";
  EXPECT_EQ(chosen(stage), "1F0") << "and the stage still works";
  stage.step(finished("1F0"));
  EXPECT_THROW(stage.step(input(1, 0)), Bug) << "twice, long after";
  StageMachine later(plan_of({1}, 3, 2, 6));
  EXPECT_THROW(later.step(input(1, 5)), Bug) << "a micro-batch of another replica";
}

TEST(StageMachine, a_double_arrival_names_its_micro_batch_and_chunk) {
  StageMachine stage(middle(2));
  stage.step(input(1, 1));
  try {
    stage.step(input(1, 1));
    FAIL() << "no Bug";
  } catch (const Bug& bug) {
    EXPECT_THAT(bug.what(), HasSubstr("micro-batch 1 came twice to chunk 1"));
  }
}

TEST(StageMachine, explain_names_the_missing_input) {
  StageMachine first(plan_of({0}, 2, 1));
  EXPECT_EQ(first.explain(), "idle; next 0F0 waits for its tokens");
  StageMachine stage(middle(2));
  EXPECT_EQ(stage.explain(), "idle; next 1F0 waits for its input from chunk 0");
  for (const StageEvent& event : {input(1, 0), input(1, 1), gradient(1, 1)}) stage.step(event);
  EXPECT_EQ(chosen(stage), "1F0");
  EXPECT_EQ(stage.explain(), "an operator is running");
  stage.step(finished("1F0"));
  EXPECT_EQ(run_dry(stage), "1F1 1B1");
  EXPECT_EQ(stage.explain(), "idle; next 1B0 waits for its gradient from chunk 2");
}

TEST(StageMachine, explain_names_the_first_missing_operator_of_a_stage_with_several_chunks) {
  StageMachine stage(plan_of({1, 3}, 6, 1));
  stage.step(input(1, 0));
  run_dry(stage);
  EXPECT_EQ(stage.explain(), "idle; next 3F0 waits for its input from chunk 2") << "no gradient can be missed yet";
  stage.step(input(3, 0));
  run_dry(stage);
  EXPECT_EQ(stage.explain(), "idle; next 3B0 waits for its gradient from chunk 4");
  stage.step(gradient(3, 0));
  run_dry(stage);
  EXPECT_EQ(stage.explain(), "idle; next 1B0 waits for its gradient from chunk 2");
}

TEST(StageMachine, explain_of_a_static_stage_names_the_head_of_its_list) {
  StagePlan plan = middle(1);
  plan.dispatch = Dispatch::in_order;
  plan.order = {{X, {1}, {0}}, {F, {1}, {0}}};
  StageMachine wrong(plan);
  wrong.step(gradient(1, 0));
  EXPECT_EQ(wrong.explain(), "idle; next 1X0 waits for its own forward");
  plan.order = {{F, {1}, {0}}, {W, {1}, {0}}};
  StageMachine skips(plan);
  skips.step(input(1, 0));
  run_dry(skips);
  EXPECT_EQ(skips.explain(), "idle; next 1W0 waits for its backward");
}

TEST(StageMachine, explain_names_a_cap_that_holds_a_forward_back) {
  StagePlan plan = plan_of({1, 3}, 6, 1);
  plan.caps.held = 1;  // too few for two chunks, which a file may not ask for
  StageMachine stage(plan);
  stage.step(input(1, 0));
  run_dry(stage);
  stage.step(input(3, 0));
  EXPECT_EQ(run_dry(stage), "");
  EXPECT_EQ(stage.explain(), "idle; next 3F0 waits for a free place under its caps");
}

}  // namespace
}  // namespace stagecraft::pipelines
