#include "planning/operator.hpp"

#include <gtest/gtest.h>

namespace stagecraft {
namespace {

TEST(OperatorText, chunk_kind_and_micro_batch_in_this_order) {
  EXPECT_EQ(to_text({OperatorKind::forward, {2}, {0}}), "2F0");
  EXPECT_EQ(to_text({OperatorKind::backward_input, {0}, {13}}), "0B13");
  EXPECT_EQ(to_text({OperatorKind::backward_weight, {11}, {7}}), "11W7");
  EXPECT_EQ(to_text({OperatorKind::backward, {3}, {4294967295}}), "3X4294967295");
}

TEST(OperatorText, every_operator_parses_back) {
  for (std::uint32_t number : {0u, 1u, 9u, 10u, 4096u, 4294967295u}) {
    for (OperatorKind kind :
         {OperatorKind::forward, OperatorKind::backward_input, OperatorKind::backward_weight, OperatorKind::backward}) {
      const Operator op{kind, {number}, {4294967295u - number}};
      EXPECT_EQ(parse_operator(to_text(op)), op) << to_text(op);
    }
  }
}

TEST(OperatorText, anything_else_is_no_operator) {
  for (const char* text : {"", "F", "2F", "F0", "2f0", "2G0", "2F0 ", " 2F0", "2F0F1", "-1F0", "2F-1", "+2F0", "02F0",
                           "2F00", "4294967296F0", "0F4294967296", "2 F 0", "2F0x", "0x2F0"}) {
    EXPECT_FALSE(parse_operator(text)) << text;
  }
}

}  // namespace
}  // namespace stagecraft
