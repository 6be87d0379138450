// `--set dotted.key=value`.
#include <gtest/gtest.h>

#include "tests/config/examples.hpp"

namespace stagecraft {
namespace {

LoadResult load_with(const std::vector<std::string>& overrides) { return load_topology("t.yaml", cpu_file, overrides); }

TEST(Overrides, a_value_of_the_file_is_replaced) {
  EXPECT_EQ(load(cpu_file, {"model.layers=12"}).pipeline.layout, (std::vector<std::uint32_t>{3, 3, 3, 3}));
}
TEST(Overrides, list_items_are_reached_by_index) {
  EXPECT_EQ(load(cpu_file, {"nodes.0.devices.0.count=8", "pipeline.stages=8"}).nodes[0].devices.size(), 8U);
}
TEST(Overrides, missing_keys_and_sections_are_created) {
  EXPECT_EQ(load(cpu_file, {"training.optimizer.schedule.kind=cosine"}).training.optimizer.schedule,
            RateSchedule::cosine);
}
TEST(Overrides, a_value_may_be_a_list_or_a_map) {
  EXPECT_EQ(load(cpu_file, {"pipeline.layout=[1, 2, 2, 3]"}).pipeline.layout, (std::vector<std::uint32_t>{1, 2, 2, 3}));
  EXPECT_EQ(load(cpu_file, {"links={ defaults: { credits: 3 } }"}).links.credits, 3U);
}
TEST(Overrides, a_value_may_hold_the_equals_sign) { EXPECT_EQ(load(cpu_file, {"output.dir=a=b"}).output.dir, "a=b"); }
TEST(Overrides, the_last_of_equal_keys_wins) { EXPECT_EQ(load(cpu_file, {"job.seed=1", "job.seed=2"}).job.seed, 2U); }
TEST(Overrides, a_bad_value_of_the_file_is_cured) {
  EXPECT_TRUE(load_topology("t.yaml", with(cpu_file, "layers: 8", "layers: many"), {"model.layers=8"}).topology);
}
TEST(Overrides, problems_cite_the_override) {
  expect_only(load_with({"model.layers=many"}), "--set model.layers=many: SC0116",
              {"model.layers: expected an integer"});
  expect_only(load_with({"pipeline.stages=8"}), "--set pipeline.stages=8: SC0204", {"expected 8 devices"});
  expect_only(load_with({"model.layrs=8"}), "--set model.layrs=8: SC0114", {"did you mean 'layers'?"});
  expect_only(load_with({"job={ name: x }"}), "--set job={ name: x }: SC0115", {"job.iterations"});
  expect_only(load_with({"job.name=[1"}), "--set job.name=[1: SC0103", {});
}
TEST(Overrides, an_override_of_another_form_is_refused) {
  for (const char* text : {"model.layers", "=8", "model..layers=8", ".=1", "model.layers=", ""}) {
    expect_only(load_with({text}), std::string("--set ") + text + ": SC0122", {"dotted.key=value"});
  }
}
TEST(Overrides, a_place_that_is_not_there_is_refused) {
  expect_only(load_with({"nodes.1.name=n1"}), "--set nodes.1.name=n1: SC0123", {"from 0 to 0", "'1'"});
  expect_only(load_with({"nodes.x.name=n1"}), "--set nodes.x.name=n1: SC0123", {"'x'"});
  expect_only(load_with({"model.layers.x=1"}), "--set model.layers.x=1: SC0123", {"single value"});
}
TEST(Overrides, a_path_as_deep_as_a_hostile_one_is_refused) {
  std::string path = "a";
  for (int i = 0; i < 100'000; ++i) path += ".a";
  EXPECT_TRUE(has_code(load_with({path + "=1"}), ErrorCode::too_deep));
}

}  // namespace
}  // namespace stagecraft
