#include "planning/schedule.hpp"

#include <gtest/gtest.h>

namespace stagecraft {
namespace {

constexpr OperatorKind F = OperatorKind::forward, X = OperatorKind::backward;

TEST(ScheduleText, one_line_per_stage) {
  const Schedule schedule{{{{F, {0}, {0}}, {F, {0}, {1}}, {X, {0}, {0}}}, {{F, {1}, {0}}}}};
  EXPECT_EQ(to_text(schedule), "0F0 0F1 0X0\n1F0\n");
  EXPECT_EQ(parse_schedule("0F0 0F1 0X0\n1F0\n"), schedule);
  EXPECT_EQ(parse_schedule("0F0  0F1\t0X0 \r\n 1F0"), schedule) << "blanks and the last newline are free";
}

TEST(ScheduleText, a_stage_without_operators_survives_the_way_there_and_back) {
  const Schedule schedule{{{{F, {0}, {0}}}, {}, {}}};
  EXPECT_EQ(parse_schedule(to_text(schedule)), schedule);
  EXPECT_EQ(parse_schedule(""), Schedule{});
  EXPECT_EQ(to_text(Schedule{}), "");
}

TEST(ScheduleText, a_word_that_is_no_operator_refuses_the_whole) {
  EXPECT_FALSE(parse_schedule("0F0 0Q1\n1F0"));
  EXPECT_FALSE(parse_schedule("0F0\n1F"));
  EXPECT_FALSE(parse_schedule("0F0,0F1"));
}

TEST(ScheduleNames, every_name_parses_back) {
  for (auto kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved, ScheduleKind::bfs}) {
    EXPECT_EQ(parse_schedule_kind(name_of(kind)), kind);
  }
  for (auto dispatch : {Dispatch::in_order, Dispatch::reactive}) EXPECT_EQ(parse_dispatch(name_of(dispatch)), dispatch);
  EXPECT_EQ(name_of(ScheduleKind::one_f_one_b), "1f1b");
  EXPECT_EQ(name_of(Dispatch::in_order), "static");
  EXPECT_FALSE(parse_schedule_kind("1F1B"));
  EXPECT_FALSE(parse_schedule_kind(""));
  EXPECT_FALSE(parse_dispatch("in_order"));
}

}  // namespace
}  // namespace stagecraft
