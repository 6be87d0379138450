// Promise P1 on whole runs: whatever the layout, schedule, dispatch, credits, order of messages and world, the losses,
// weights and moments have the same bits.
#include <gtest/gtest.h>

#include "fixture.hpp"

namespace stagecraft::test {
namespace {

using namespace std::chrono_literals;

struct Layout {
  std::uint32_t stages, chunks, replicas;
  std::string schedule, dispatch;
};

std::vector<Layout> layouts(std::uint32_t stages) {
  std::vector<Layout> all;
  for (const std::uint32_t replicas : {1U, 2U, 4U})
    for (const char* dispatch : {"static", "reactive"}) {
      for (const char* schedule : {"gpipe", "1f1b"}) all.push_back({stages, 1, replicas, schedule, dispatch});
      for (const char* schedule : {"interleaved", "bfs"}) all.push_back({stages, 2, replicas, schedule, dispatch});
    }
  return all;
}

// One replica count per layout; the others are there for the schedules above.
std::vector<Layout> split_and_following_layouts(std::uint32_t stages) {
  std::vector<Layout> all;
  std::uint32_t draw = stages;
  const auto add = [&](const char* schedule, std::uint32_t chunks, const char* dispatch) {
    all.push_back({stages, chunks, 1U << (draw++ % 3), schedule, dispatch});
  };
  for (const char* dispatch : {"static", "reactive", "follow"}) {
    for (const char* schedule : {"zb-h1", "zb-h2", "zb-auto", "pipemorph", "planned"}) add(schedule, 1, dispatch);
    for (const char* schedule : {"zb-v", "v-half", "v-min"}) add(schedule, 2, dispatch);
  }
  for (const char* schedule : {"gpipe", "1f1b"}) add(schedule, 1, "follow");
  for (const char* schedule : {"interleaved", "bfs"}) add(schedule, 2, "follow");
  return all;
}

Topology with(const std::string& file, const Layout& l, std::uint64_t draw, bool tied) {
  const std::string credits[] = {"auto", "1", "3"};
  return load(file, {fmt::format("pipeline.stages={}", l.stages), fmt::format("pipeline.chunks={}", l.chunks),
                     fmt::format("pipeline.replicas={}", l.replicas), "pipeline.schedule=" + l.schedule,
                     "pipeline.dispatch=" + l.dispatch, "links.defaults.credits=" + credits[draw % 3],
                     fmt::format("model.tied_embeddings={}", tied)});
}

std::string name_of(const Layout& l) {
  return fmt::format("{} stages x {} chunks x {} replicas, {}, {}", l.stages, l.chunks, l.replicas, l.schedule,
                     l.dispatch);
}

// The reference is one stage, one replica, gpipe, in order: nothing is reordered, nothing is sent.
const RunResult& reference(bool tied) {
  static const RunResult results[] = {run_virtual(with(tiny_file(), {1, 1, 1, "gpipe", "static"}, 0, false)),
                                      run_virtual(with(tiny_file(), {1, 1, 1, "gpipe", "static"}, 0, true))};
  return results[tied ? 1 : 0];
}

class SameBits : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(SameBits, whatever_the_layout_schedule_dispatch_credits_and_order_of_messages) {
  std::uint64_t draw = GetParam();
  for (const bool tied : {false, true})
    for (const Layout& l : layouts(GetParam())) {
      ++draw;
      VirtualRun run{draw, draw % 2 == 0 ? Duration{} : Duration{20ms}, {}};
      const RunResult result = run_virtual(with(tiny_file(), l, draw, tied), run);
      ASSERT_TRUE(sound(result)) << name_of(l) << ": " << result.reason
                                 << fmt::format("{}", fmt::join(result.violations, "; "));
      ASSERT_EQ(bits(result), bits(reference(tied))) << name_of(l) << ", seed " << draw << ", tied " << tied;
    }
}
INSTANTIATE_TEST_SUITE_P(stages, SameBits, ::testing::Values(1, 2, 3, 5, 8));

TEST_P(SameBits, under_split_schedules_in_a_V_and_following_too) {
  const auto short_job = [](const Layout& l, std::uint64_t draw, bool tied) {
    Topology topology = with(tiny_file(), l, draw, tied);
    topology.job.iterations = 6;
    return topology;
  };
  const Layout in_order{1, 1, 1, "gpipe", "static"};
  const std::string expected[] = {bits(run_virtual(short_job(in_order, 0, false))),
                                  bits(run_virtual(short_job(in_order, 0, true)))};
  std::uint64_t draw = 100 + GetParam();
  for (const Layout& l : split_and_following_layouts(GetParam())) {
    ++draw;
    const bool tied = draw % 3 == 0;
    VirtualRun run{draw, draw % 2 == 0 ? Duration{} : Duration{20ms}, {}};
    const RunResult result = run_virtual(short_job(l, draw, tied), run);
    ASSERT_TRUE(sound(result)) << name_of(l) << ": " << result.reason
                               << fmt::format("{}", fmt::join(result.violations, "; "));
    ASSERT_EQ(bits(result), expected[tied ? 1 : 0]) << name_of(l) << ", seed " << draw << ", tied " << tied;
  }
}

TEST(SameBits, the_reference_learns_and_clips) {
  const RunResult& r = reference(false);
  ASSERT_TRUE(sound(r));
  EXPECT_LT(r.iterations.back().loss, 0.8 * r.iterations.front().loss);
  for (const IterationReport& i : r.iterations) EXPECT_LT(i.clip, 1.0) << "clipping is active in every iteration";
}

TEST(SameBits, digests_of_emulated_devices_agree_too) {
  const RunResult expected = run_virtual(with(emulated_file(), {1, 1, 1, "gpipe", "static"}, 0, false));
  std::uint64_t draw = 0;
  for (const std::uint32_t stages : {1U, 2U, 3U, 5U, 8U}) {
    std::vector<Layout> all = layouts(stages);
    for (Layout& l : split_and_following_layouts(stages)) all.push_back(std::move(l));
    for (const Layout& l : all) {
      VirtualRun run{++draw, draw % 2 == 0 ? Duration{} : Duration{25ms}, {}};
      const RunResult result = run_virtual(with(emulated_file(), l, draw, draw % 5 == 0), run);
      ASSERT_TRUE(sound(result)) << name_of(l) << ": " << result.reason;
      if (draw % 5 == 0) continue;  // a tied model is another model
      ASSERT_EQ(bits(result), bits(expected)) << name_of(l) << ", seed " << draw;
    }
  }
}

TEST(SameBits, under_threads_and_the_real_clock) {
  std::uint64_t draw = 0;
  for (const Layout& l : {Layout{1, 1, 1, "1f1b", "reactive"}, Layout{3, 1, 1, "1f1b", "reactive"},
                          Layout{2, 2, 2, "interleaved", "reactive"}, Layout{3, 2, 1, "bfs", "static"},
                          Layout{2, 1, 4, "gpipe", "reactive"}, Layout{3, 2, 1, "v-min", "follow"},
                          Layout{2, 2, 2, "zb-v", "static"}, Layout{4, 1, 1, "zb-auto", "follow"},
                          Layout{3, 1, 1, "planned", "follow"}, Layout{2, 1, 2, "1f1b", "follow"}}) {
    ++draw;
    const bool tied = draw % 2 == 0;
    Topology topology = with(tiny_file(), l, draw, tied);
    const auto world = make_real_world(2);
    RunOptions options;
    // The text lives in memory: write it where the real world's disk finds it.
    const std::string folder = ::testing::TempDir() + "stagecraft-same-bits";
    ASSERT_FALSE(world->disk().make_directories(folder));
    ASSERT_FALSE(world->disk().write_whole(folder + "/a.txt", text_disk()->read("/text/a.txt").value()));
    topology.data->sources[0].files = folder + "/*.txt";
    const RunResult result = run_job(*world, topology, options);
    ASSERT_TRUE(sound(result)) << name_of(l) << ": " << result.reason;
    EXPECT_EQ(bits(result), bits(reference(tied))) << name_of(l);
  }
}

// Each switches off one of the rules that keep the bits. If none of the seeds noticed, the tests above would prove
// nothing.
struct Control {
  std::string name;
  NegativeControls controls;
};

TEST(NegativeControl, every_rule_that_keeps_the_bits_is_needed) {
  Control all[] = {{"a left fold instead of the tree", {}},
                   {"a rounded norm per stage", {}},
                   {"W in any order", {}},
                   {"one accumulator for tied tables", {}}};
  all[0].controls.reduction = ReductionOrder::left_fold;
  all[1].controls.round_norm_per_stage = true;
  all[2].controls.free_weight_order = true;
  all[3].controls.one_tied_accumulator = true;
  for (const Control& control : all) {
    const bool tied = control.controls.one_tied_accumulator;
    std::uint64_t noticed = 0, seeds = 0;
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
      const Layout l{static_cast<std::uint32_t>(1 + seed % 3), 1, static_cast<std::uint32_t>(1U << (seed % 2)), "gpipe",
                     "reactive"};
      VirtualRun run{seed, 60ms, {}};
      run.options.controls = control.controls;
      Topology topology = with(tiny_file(), l, 2, tied);
      topology.job.iterations = 4;
      topology.pipeline.pending_weights.kind = CapSpec::Kind::off;  // else no W ever waits behind another
      const RunResult result = run_virtual(topology, run);
      ++seeds;
      bool differs = false;
      for (std::size_t i = 0; i < result.iterations.size(); ++i)
        differs |= result.iterations[i].loss != reference(tied).iterations[i].loss ||
                   result.iterations[i].gradient_norm != reference(tied).iterations[i].gradient_norm;
      noticed += differs;
    }
    RecordProperty(control.name, static_cast<int>(noticed));
    std::printf("  %-36s noticed in %d of %d seeds\n", control.name.c_str(), static_cast<int>(noticed),
                static_cast<int>(seeds));
    EXPECT_GT(noticed, 0U) << control.name;
  }
}

}  // namespace
}  // namespace stagecraft::test
