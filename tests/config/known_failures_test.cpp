// Known failures of comparable systems: each test is named after what must hold here.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/config/examples.hpp"

namespace stagecraft {
namespace {

using Layout = std::vector<std::uint32_t>;

TEST(KnownFailures, no_layer_is_ever_dropped_by_an_uneven_split) {
  EXPECT_EQ(load(cpu_file, {"model.layers=30"}).pipeline.layout, (Layout{8, 8, 7, 7}));
  expect_refused(with(with(cpu_file, "layers: 8", "layers: 30"), "stages: 4", "stages: 4\n  layout: [7, 7, 7, 7]"),
                 "t.yaml:16:11: SC0203", {"expected 30 layers", "got 28 from [7, 7, 7, 7]", "[8, 8, 7, 7]"});
}

TEST(KnownFailures, no_layer_is_dropped_when_stages_are_also_interleaved) {
  const Topology big = load(cpu_file, {"model.layers=80", "pipeline.stages=16", "pipeline.chunks=2",
                                       "pipeline.schedule=interleaved", "nodes.0.devices.0.count=16"});
  EXPECT_EQ(std::accumulate(big.pipeline.layout.begin(), big.pipeline.layout.end(), 0U), 80U);
  EXPECT_EQ(big.pipeline.layout.size(), 32U);
  for (std::uint32_t layers = 1; layers <= 40; ++layers) {
    for (std::uint32_t slots = 1; slots <= 16; ++slots) {
      for (std::uint32_t chunks = 1; chunks <= slots; ++chunks) {
        if (slots % chunks != 0) continue;
        const std::string stages = std::to_string(slots / chunks);
        const Topology t = load(emulated_file, {"model.layers=" + std::to_string(layers), "pipeline.stages=" + stages,
                                                "pipeline.chunks=" + std::to_string(chunks),
                                                "pipeline.schedule=interleaved", "nodes.0.devices.0.count=" + stages});
        ASSERT_EQ(t.pipeline.layout.size(), slots);
        ASSERT_EQ(std::accumulate(t.pipeline.layout.begin(), t.pipeline.layout.end(), 0U), layers);
      }
    }
  }
}

TEST(KnownFailures, a_per_stage_override_that_disagrees_with_the_model_is_refused_also_with_one_stage) {
  const std::string text = with(with(cpu_file, "layers: 8", "layers: 20"), "stages: 4", "stages: 1\n  layout: [1]");
  expect_refused(with(text, "count: 4", "count: 1"), "t.yaml:16:11: SC0203", {"expected 20 layers", "got 1 from [1]"});
}

// The part that `check` has in it; that the run ends is tested where schedules are run.
TEST(KnownFailures, few_micro_batches_still_finish) {
  for (const char* schedule : {"gpipe", "1f1b", "interleaved", "bfs"}) {
    for (const char* micro_batches : {"1", "2", "7"}) {
      const auto result = load_topology(
          "t.yaml", emulated_file,
          {"pipeline.stages=8", "nodes.0.devices.0.count=8", "training.logical_shards=1",
           std::string("pipeline.schedule=") + schedule, std::string("training.micro_batches=") + micro_batches});
      ASSERT_TRUE(result.topology) << text_of(result);
      ASSERT_EQ(result.diagnostics.size(), 1U) << text_of(result);
      EXPECT_EQ(result.diagnostics[0].code, ErrorCode::few_micro_batches);
      EXPECT_EQ(result.diagnostics[0].severity, Severity::warning);
    }
  }
  const auto share = [](const std::string& micro_batches, const std::string& text) {
    const auto result = load_topology("t.yaml", emulated_file,
                                      {"pipeline.stages=8", "nodes.0.devices.0.count=8", "training.logical_shards=1",
                                       "training.micro_batches=" + micro_batches});
    EXPECT_NE(text_of(result).find(text), std::string::npos) << text_of(result);
  };
  share("1", "about 88 % of the time");  // 7 / 8
  share("2", "about 78 % of the time");  // 7 / 9
  share("7", "about 50 % of the time");  // 7 / 14
}

}  // namespace
}  // namespace stagecraft
