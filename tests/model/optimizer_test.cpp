#include "model/optimizer.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace stagecraft {
namespace {

ExactSum sum_of(double x) {
  ExactSum sum;
  sum.add(x);
  return sum;
}

TEST(Optimizer, gradients_within_the_clip_are_left_alone) {
  OptimizerSpec spec;
  spec.clip = 2.0;
  EXPECT_EQ(clip_factor(spec, sum_of(400.0), 10), 1.0);  // norm 20 / 10
  EXPECT_EQ(clip_factor(spec, sum_of(0.0), 10), 1.0);
}

TEST(Optimizer, larger_gradients_are_scaled_to_the_clip) {
  OptimizerSpec spec;
  spec.clip = 1.0;
  EXPECT_EQ(clip_factor(spec, sum_of(1600.0), 10), 0.25);  // norm 40 / 10
  spec.clip = 0;
  EXPECT_EQ(clip_factor(spec, sum_of(1600.0), 10), 1.0);
}

TEST(Optimizer, an_invalid_norm_has_no_clip_factor) {
  EXPECT_TRUE(std::isnan(clip_factor(OptimizerSpec{}, sum_of(1e300), 10)));
}

TEST(Optimizer, warm_up_rises_in_a_straight_line_from_zero) {
  OptimizerSpec spec;
  spec.learning_rate = 1.0;
  spec.warmup_steps = 4;
  EXPECT_EQ(learning_rate(spec, 1, 100), 0.25);
  EXPECT_EQ(learning_rate(spec, 3, 100), 0.75);
  EXPECT_EQ(learning_rate(spec, 4, 100), 1.0);
  EXPECT_EQ(learning_rate(spec, 100, 100), 1.0);
}

TEST(Optimizer, cosine_and_line_end_at_the_final_fraction) {
  OptimizerSpec spec;
  spec.learning_rate = 2.0;
  spec.warmup_steps = 10;
  spec.final_fraction = 0.1;
  for (RateSchedule schedule : {RateSchedule::cosine, RateSchedule::linear}) {
    spec.schedule = schedule;
    EXPECT_EQ(learning_rate(spec, 10, 110), 2.0);
    EXPECT_NEAR(learning_rate(spec, 60, 110), 1.1, 1e-14);
    EXPECT_NEAR(learning_rate(spec, 110, 110), 0.2, 1e-15);
    EXPECT_NEAR(learning_rate(spec, 500, 110), 0.2, 1e-15);
  }
  spec.schedule = RateSchedule::cosine;
  EXPECT_NEAR(learning_rate(spec, 35, 110), 2 * (0.1 + 0.9 * (0.5 + std::sqrt(0.5) / 2)), 1e-14);
  spec.schedule = RateSchedule::linear;
  EXPECT_NEAR(learning_rate(spec, 35, 110), 2 * (0.1 + 0.9 * 0.75), 1e-14);
}

TEST(Optimizer, a_warm_up_as_long_as_the_run_never_divides_by_zero) {
  OptimizerSpec spec;
  spec.schedule = RateSchedule::cosine;
  spec.warmup_steps = 5;
  EXPECT_EQ(learning_rate(spec, 5, 5), spec.learning_rate);
}

TEST(Optimizer, factors_correct_the_bias_and_divide_once_by_the_tokens) {
  OptimizerSpec spec;
  const StepFactors first = step_factors(spec, 1, 100, 0.5, 1000);
  EXPECT_EQ(first.gradient_scale, 0.0005F);
  EXPECT_EQ(first.learning_rate, 3e-4F);
  EXPECT_NEAR(first.bias1, 10.0F, 1e-5F);
  EXPECT_NEAR(first.bias2, 20.0F, 1e-4F);
  const StepFactors late = step_factors(spec, 100000, 100000, 1, 1000);
  EXPECT_EQ(late.bias1, 1.0F);
  EXPECT_EQ(late.bias2, 1.0F);
  EXPECT_EQ(step_factors(spec, 1, 1, 1, 0).gradient_scale, 0.0F);
}

}  // namespace
}  // namespace stagecraft
