// Which layouts naming layers gives, and what changes hands between two layouts.
#include "planning/layout_move.hpp"

#include <gtest/gtest.h>

#include "planning/random.hpp"

namespace stagecraft {
namespace {

PipelineShape shape_of(std::uint32_t stages, std::uint32_t chunks = 1, Placement placement = Placement::loop) {
  PipelineShape shape;
  shape.stages = stages;
  shape.chunks = chunks;
  shape.placement = placement;
  return shape;
}
std::string moved(const PipelineShape& shape, const Layout& layout, LayerRun layers, std::uint32_t to) {
  const auto result = with_layers_moved(shape, layout, layers, {to});
  return std::holds_alternative<Layout>(result) ? to_text(std::get<Layout>(result)) : std::get<std::string>(result);
}
bool has(const std::string& text, const std::string& piece) { return text.find(piece) != std::string::npos; }

TEST(LayoutMove, the_last_layers_of_a_chunk_go_to_the_next_and_the_first_ones_to_the_one_before) {
  EXPECT_EQ(moved(shape_of(3), {2, 2, 1}, {1, 2}, 1), "[1, 3, 1]");
  EXPECT_EQ(moved(shape_of(3), {2, 2, 1}, {2, 4}, 0), "[4, 0, 1]");
  EXPECT_EQ(moved(shape_of(3), {2, 2, 1}, {4, 5}, 1), "[2, 3, 0]");
}
TEST(LayoutMove, other_layers_can_not_go_alone_and_it_is_said_which_can) {
  const std::string text = moved(shape_of(3), {2, 2, 1}, {0, 1}, 1);
  EXPECT_TRUE(has(text, "layer 0 can't go to stage 1 without others (layout [2, 2, 1])")) << text;
  EXPECT_TRUE(has(text, "the last of layers 0 to 1 of stage 0, or the first of layer 4 of stage 2")) << text;
  EXPECT_TRUE(has(moved(shape_of(3), {2, 2, 1}, {4, 5}, 0), "can't go to stage 0")) << "not over a stage between";
}
TEST(LayoutMove, what_there_is_not_is_refused) {
  EXPECT_TRUE(has(moved(shape_of(3), {2, 2, 1}, {1, 2}, 3), "a stage from 0 to 2, got 3"));
  EXPECT_TRUE(has(moved(shape_of(3), {2, 2, 1}, {5, 6}, 1), "layers from 0 to 4, got 5 to 5"));
}
TEST(LayoutMove, between_chunks_of_one_stage_nothing_changes_hands) {
  const PipelineShape v = shape_of(2, 2, Placement::v);  // chunks 1 and 2 are both on stage 1
  EXPECT_TRUE(has(moved(v, {2, 2, 2, 2}, {2, 4}, 1), "there already"));
  EXPECT_TRUE(transfers_between(v, {2, 2, 2, 2}, {2, 1, 3, 2}).empty());
}
TEST(LayoutMove, every_layer_that_changes_its_stage_is_in_one_transfer) {
  EXPECT_EQ(to_text(transfers_between(shape_of(3), {3, 2, 0}, {1, 2, 2})),
            "layers 1 to 2 from stage 0 to stage 1, layers 3 to 4 from stage 1 to stage 2");
  EXPECT_EQ(to_text(transfers_between(shape_of(3), {2, 2, 1}, {2, 2, 1})), "nothing");
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const std::uint32_t chunks = 1 + static_cast<std::uint32_t>(keyed(seed, 1) % 2);
    const PipelineShape shape = shape_of(4, chunks);
    Layout from(shape.total_chunks(), 0), to = from;
    for (std::uint64_t l = 0; l < 9; ++l) {
      ++from[keyed(seed, 2, l) % from.size()];
      ++to[keyed(seed, 3, l) % to.size()];
    }
    const auto stage = [&](const Layout& layout, std::uint32_t layer) {
      std::uint32_t c = 0, end = layout[0];
      while (layer >= end) end += layout[++c];
      return shape.stage_of({c});
    };
    std::vector<int> seen(9, 0);
    for (const Transfer& t : transfers_between(shape, from, to))
      for (std::uint32_t l = t.layers.begin; l < t.layers.end; ++l) {
        ++seen[l];
        ASSERT_EQ(t.from, stage(from, l)) << seed;
        ASSERT_EQ(t.to, stage(to, l)) << seed;
      }
    for (std::uint32_t l = 0; l < 9; ++l) ASSERT_EQ(seen[l], stage(from, l) == stage(to, l) ? 0 : 1) << seed;
  }
}

}  // namespace
}  // namespace stagecraft
