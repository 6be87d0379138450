// What a topology means: one test per rule, with the position and code of what is refused.
#include "config/topology.hpp"

#include <gtest/gtest.h>

#include "planning/bug.hpp"
#include "tests/config/examples.hpp"
#include "tests/config/same_topology.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;
using Layout = std::vector<std::uint32_t>;

// The pipeline of the cpu file (line 14) with other keys.
std::string pipeline(const std::string& keys) { return with(cpu_file, "  stages: 4\n", "  " + keys + "\n"); }
// The file with a section after its end (line 19).
std::string plus(const std::string& section) { return cpu_file + section + "\n"; }
std::string links(const std::string& overrides) { return plus("links: { overrides: [" + overrides + "] }"); }

TEST(Topology, a_file_with_the_least_keys_gets_every_default) {
  const Topology t = load(cpu_file);
  EXPECT_EQ(t.file, "t.yaml");
  EXPECT_EQ(t.model.kv_heads, 8U);
  EXPECT_EQ(t.model.hidden, 688U);  // 8/3 x 256 = 682.7
  EXPECT_EQ(t.model.vocabulary, 257U);
  EXPECT_EQ(t.pipeline.layout, (Layout{2, 2, 2, 2}));
  EXPECT_EQ(t.pipeline.schedule, ScheduleKind::one_f_one_b);
  EXPECT_EQ(t.pipeline.dispatch, Dispatch::reactive);
  EXPECT_EQ(t.pipeline.activations.kind, CapSpec::Kind::automatic);
  EXPECT_EQ(t.nodes.at(0).listen, "127.0.0.1:0");
  EXPECT_EQ(t.nodes.at(0).devices.size(), 4U);
  EXPECT_EQ(t.nodes[0].devices[3].memory, Bytes{std::uint64_t{2} << 30});
  EXPECT_EQ(t.timeouts.operation, 60s);
  EXPECT_EQ(t.timeouts.node, 360s);
  EXPECT_FALSE(t.links.credits);
  EXPECT_EQ(t.training.kernels, KernelKind::exact);
  EXPECT_EQ(t.checkpoint.dir, "checkpoints");
  EXPECT_EQ(t.checkpoint.every, 0U);
  EXPECT_EQ(t.checkpoint.keep, 3U);
  EXPECT_EQ(t.output.dir, "stagecraft-runs");
  ASSERT_TRUE(t.data);
  EXPECT_EQ(t.data->sources.at(0).exclude, (std::vector<std::string>{"*.dat", "*.u8"}));
  EXPECT_EQ(t.data->sources[0].split, "\n%\n");
  EXPECT_FALSE(t.emulated());
}
TEST(Topology, a_good_file_earns_no_remark) {
  EXPECT_EQ(text_of(load_topology("t.yaml", cpu_file)), "");
  EXPECT_EQ(text_of(load_topology("t.yaml", emulated_file)), "");
}
TEST(Topology, the_default_hidden_width_is_eight_thirds_of_the_width_in_whole_eights) {
  for (std::uint32_t width = 2; width <= 2048; width += 2) {
    const Topology t = load(cpu_file, {"model.width=" + std::to_string(width), "model.heads=1"});
    ASSERT_EQ(t.model.hidden % 8, 0U);
    ASSERT_GE(3 * t.model.hidden, 8 * width);
    ASSERT_LT(3 * (t.model.hidden - 8), 8 * width);
  }
}
TEST(Topology, a_file_of_another_version_is_refused_and_not_judged_further) {
  expect_refused(with(plus("weather: fine"), "version: 1", "version: 2"), "t.yaml:1:10: SC0201",
                 {"version 1", "got 2"});
}
TEST(Topology, a_layout_of_the_wrong_length_is_refused) {
  expect_refused(pipeline("stages: 4\n  layout: [4, 2, 2]"), "t.yaml:16:11: SC0202",
                 {"expected 4 entries", "got 3", "[2, 2, 2, 2]"});
  expect_refused(pipeline("stages: 4\n  chunks: 2\n  schedule: bfs\n  layout: [2, 2, 2, 2]"), "t.yaml:18:11: SC0202",
                 {"expected 8 entries (stages 4 x chunks 2)", "got 4"});
}
TEST(Topology, a_layout_that_does_not_add_up_is_refused) {
  expect_refused(pipeline("stages: 4\n  layout: [2, 2, 2, 1]"), "t.yaml:16:11: SC0203", {"expected 8 layers", "got 7"});
  expect_refused(pipeline("stages: 4\n  layout: [2, 2, 2, 3]"), "t.yaml:16:11: SC0203", {"expected 8 layers", "got 9"});
}
TEST(Topology, a_layout_that_adds_up_is_taken_as_it_is) {
  EXPECT_EQ(load(pipeline("stages: 4\n  layout: [1, 2, 3, 2]")).pipeline.layout, (Layout{1, 2, 3, 2}));
}
TEST(Topology, a_layout_that_is_no_list_is_refused) {
  expect_refused(pipeline("stages: 4\n  layout: even"), "t.yaml:16:11: SC0116", {"auto"});
}
TEST(Topology, too_few_devices_are_refused_with_both_numbers) {
  expect_refused(pipeline("stages: 8"), "t.yaml:15:11: SC0204", {"expected 8 devices", "got 4"});
  expect_refused(pipeline("stages: 4\n  replicas: 2"), "t.yaml:15:11: SC0204",
                 {"expected 8 devices (stages 4 x replicas 2)", "got 4"});
}
TEST(Topology, devices_of_two_kinds_are_refused) {
  const std::string other =
      ", { kind: emulated, memory: 2GiB, costs: { forward: 1ms, backward_input: 1ms, "
      "backward_weight: 1ms } }";
  expect_refused(with(cpu_file, "count: 4, memory: 2GiB }", "count: 3, memory: 2GiB }" + other), "t.yaml:18:62: SC0205",
                 {"expected cpu", "got emulated"});
}
TEST(Topology, a_width_that_heads_do_not_divide_is_refused) {
  expect_refused(with(cpu_file, "heads: 8", "heads: 6"), "t.yaml:6:10: SC0206", {"256", "got 6"});
}
TEST(Topology, an_odd_head_size_is_refused) {
  expect_refused(with(cpu_file, "heads: 8", "heads: 256"), "t.yaml:6:10: SC0207", {"got 1 = 256 / 256"});
}
TEST(Topology, kv_heads_that_do_not_divide_heads_are_refused) {
  expect_refused(with(cpu_file, "heads: 8", "heads: 8\n  kv_heads: 3"), "t.yaml:7:13: SC0208", {"heads = 8", "got 3"});
  EXPECT_EQ(load(with(cpu_file, "heads: 8", "heads: 8\n  kv_heads: 2")).model.kv_heads, 2U);
}
TEST(Topology, a_micro_batch_below_the_context_is_refused) {
  expect_refused(with(cpu_file, "tokens: 512", "tokens: 511"), "t.yaml:10:23: SC0209", {"512", "got 511"});
}
TEST(Topology, logical_shards_that_are_no_power_of_two_are_refused) {
  expect_refused(with(cpu_file, "shards: 4", "shards: 6"), "t.yaml:13:19: SC0210", {"got 6", "4 or 8"});
}
TEST(Topology, fewer_logical_shards_than_replicas_are_refused) {
  const std::string text = with(pipeline("stages: 1\n  replicas: 4"), "shards: 4", "shards: 2");
  expect_refused(text, "t.yaml:13:19: SC0211", {"replicas = 4", "got 2"});
}
TEST(Topology, more_replicas_than_micro_batches_are_refused) {
  const std::string text = with(pipeline("stages: 1\n  replicas: 4"), "micro_batches: 8", "micro_batches: 3");
  const auto result = load_topology("t.yaml", text);
  EXPECT_TRUE(has_code(result, ErrorCode::replicas_above_micro_batches));
  EXPECT_NE(
      text_of(result).find("t.yaml:16:13: SC0212: pipeline.replicas: expected at most training.micro_batches = 3, "
                           "got 4"),
      std::string::npos)
      << text_of(result);
}
TEST(Topology, several_chunks_need_a_schedule_that_knows_them) {
  for (const char* schedule : {"1f1b", "gpipe"}) {
    expect_refused(pipeline("stages: 4\n  chunks: 2\n  schedule: " + std::string(schedule)), "t.yaml:16:11: SC0213",
                   {schedule, "got 2", "interleaved or bfs"});
  }
  for (const char* schedule : {"interleaved", "bfs"}) {
    EXPECT_EQ(load(pipeline("stages: 4\n  chunks: 2\n  schedule: " + std::string(schedule))).pipeline.layout.size(),
              8U);
  }
}
TEST(Topology, every_schedule_loads_with_the_chunks_that_it_runs) {
  const std::string head = "stages: 4\n  chunks: ";
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1", "zb-h2", "zb-auto", "pipemorph", "planned"}) {
    EXPECT_EQ(name_of(load(pipeline(head + "1\n  schedule: " + schedule)).pipeline.schedule), schedule);
    expect_refused(pipeline(head + "2\n  schedule: " + schedule), "t.yaml:16:11: SC0213",
                   {schedule, "got 2", "interleaved or bfs, or zb-v, v-half or v-min"});
  }
  for (const char* schedule : {"zb-v", "v-half", "v-min"}) {
    const PipelineSpec spec = load(pipeline(head + "2\n  schedule: " + schedule)).pipeline;
    EXPECT_EQ(name_of(spec.schedule), schedule);
    EXPECT_EQ(spec.shape().stage_of({7}), StageId{0}) << "the V ends where it began";
    expect_refused(pipeline(head + "1\n  schedule: " + schedule), "t.yaml:16:11: SC0213",
                   {schedule, "2 chunks per stage", "got 1", "write chunks: 2"});
    expect_refused(pipeline("stages: 4\n  schedule: " + std::string(schedule)), "t.yaml:16:13: SC0213",
                   {"got 1", "write chunks: 2"});
  }
}
TEST(Topology, a_V_hosts_its_second_chunks_backwards) {
  const PipelineSpec v =
      load(pipeline("stages: 2\n  chunks: 2\n  layout: [3, 2, 2, 1]\n  schedule: zb-v"), {"nodes.0.devices.0.count=2"})
          .pipeline;
  EXPECT_EQ(v.layers_of({0}), (Layout{3, 1}));
  EXPECT_EQ(v.layers_of({1}), (Layout{2, 2}));
}
TEST(Topology, a_V_joins_no_last_and_first_stage) {
  expect_refused(
      with(links("{ between: [3, 0], latency: 1ms }"), "stages: 4", "stages: 4\n  chunks: 2\n  schedule: zb-v"),
      "t.yaml:21:33: SC0218", {"[3, 0]"});
}
TEST(Topology, every_dispatch_loads) {
  for (const char* dispatch : {"static", "reactive", "follow"})
    EXPECT_EQ(name_of(load(pipeline("stages: 4\n  dispatch: " + std::string(dispatch))).pipeline.dispatch), dispatch);
}
TEST(Topology, warmups_need_one_entry_per_stage) {
  expect_refused(pipeline("stages: 4\n  warmup: [4, 3]"), "t.yaml:16:11: SC0214", {"4 stages", "got 2"});
  EXPECT_EQ(load(pipeline("stages: 4\n  warmup: [7, 5, 3, 1]")).pipeline.warmup, (Layout{7, 5, 3, 1}));
}
TEST(Topology, a_warmup_of_zero_is_refused) {
  expect_refused(pipeline("stages: 4\n  warmup: [4, 3, 2, 0]"), "t.yaml:16:21: SC0118", {"from 1"});
}
TEST(Topology, warmups_are_refused_for_schedules_that_have_none) {
  for (const char* schedule : {"gpipe", "bfs", "zb-auto", "planned"}) {
    expect_refused(pipeline("stages: 4\n  warmup: [4, 3, 2, 1]\n  schedule: " + std::string(schedule)),
                   "t.yaml:16:11: SC0215", {schedule});
  }
  for (const char* schedule : {"1f1b", "interleaved", "zb-h1", "zb-h2", "pipemorph"})
    EXPECT_EQ(load(pipeline("stages: 4\n  warmup: [4, 3, 2, 1]\n  schedule: " + std::string(schedule))).pipeline.warmup,
              (Layout{4, 3, 2, 1}));
}
TEST(Topology, a_cap_below_the_chunks_is_refused) {
  const std::string head = "stages: 2\n  chunks: 2\n  schedule: bfs\n  caps: ";
  const std::string text = with(pipeline(head + "{ activations: 1 }"), "count: 4", "count: 2");
  expect_refused(text, "t.yaml:18:24: SC0216", {"chunks = 2", "got 1"});
  expect_refused(with(text, "activations", "pending_weights"), "t.yaml:18:28: SC0216", {"chunks = 2", "got 1"});
}
TEST(Topology, caps_are_auto_off_or_a_number) {
  const Topology t = load(pipeline("stages: 4\n  caps: { activations: 5, pending_weights: off }"));
  EXPECT_EQ(t.pipeline.activations.kind, CapSpec::Kind::fixed);
  EXPECT_EQ(t.pipeline.activations.value, 5U);
  EXPECT_EQ(t.pipeline.pending_weights.kind, CapSpec::Kind::off);
  expect_refused(pipeline("stages: 4\n  caps: { activations: some }"), "t.yaml:16:24: SC0116", {"auto or off"});
}
TEST(Topology, timeouts_that_do_not_grow_are_refused) {
  expect_refused(plus("timeouts: { operation: 10s, iteration: 10s }"), "t.yaml:19:40: SC0217", {"10 s"});
  expect_refused(plus("timeouts: { iteration: 400s }"), "t.yaml:19:24: SC0217", {"400 s", "330 s (the default)"});
  EXPECT_EQ(load(plus("timeouts: { operation: 100ms, iteration: 1s, stage: 2s, node: 3s }")).timeouts.stage, 2s);
}
TEST(Topology, links_between_stages_that_are_no_neighbours_are_refused) {
  expect_refused(links("{ between: [0, 2], latency: 1ms }"), "t.yaml:19:33: SC0218", {"0 to 3", "[0, 2]"});
  expect_refused(links("{ between: [3, 4], latency: 1ms }"), "t.yaml:19:33: SC0218");
  expect_refused(links("{ between: [1, 1], latency: 1ms }"), "t.yaml:19:33: SC0218");
}
TEST(Topology, the_last_and_the_first_stage_are_neighbours_only_with_several_chunks) {
  expect_refused(links("{ between: [3, 0], latency: 1ms }"), "t.yaml:19:33: SC0218");
  const Topology t = load(links("{ between: [3, 0], latency: 1ms }"), {"pipeline.chunks=2", "pipeline.schedule=bfs"});
  EXPECT_EQ(link_cost(t, {3}, {0}, Direction::forward).latency, 1ms);
  EXPECT_EQ(link_cost(t, {0}, {3}, Direction::backward).latency, 1ms);
}
TEST(Topology, two_nodes_of_one_name_are_refused) {
  expect_refused(with(cpu_file, "count: 4", "count: 3") + "  - name: n0\n    devices: [{ kind: cpu, memory: 2GiB }]\n",
                 "t.yaml:19:11: SC0219", {"line 17, column 11"});
}
TEST(Topology, addresses_that_are_not_host_and_port_are_refused) {
  for (const char* address : {"localhost", "127.0.0.1:65536", "127.0.0.1:", ":80", "::1:80", "[::1]", "a b:1", "h:-1",
                              "h:+1", "[1.2.3.4]:1", "h:000080"}) {
    expect_refused(with(cpu_file, "name: n0", "name: n0\n    listen: \"" + std::string(address) + "\""),
                   "t.yaml:18:13: SC0220", {address});
  }
  for (const char* address : {"localhost:80", "127.0.0.1:0", "[::1]:7000", "node-7.cluster.local:65535"}) {
    const std::string text = with(cpu_file, "name: n0", "name: n0\n    listen: \"" + std::string(address) + "\"");
    EXPECT_EQ(load(text).nodes[0].listen, address);
  }
}
TEST(Topology, what_will_come_later_is_refused_with_what_there_is_now) {
  expect_refused(pipeline("stages: 4\n  schedule: file"), "t.yaml:16:13: SC0221",
                 {"gpipe, 1f1b, interleaved, bfs, zb-h1", "planned", "file"});
  expect_refused(with(cpu_file, "kind: cpu", "kind: cuda"), "t.yaml:18:23: SC0221", {"cpu, emulated"});
}
TEST(Topology, a_section_checkpoint_says_where_and_how_often) {
  const Topology t = load(plus("checkpoint: { dir: here, every: 50, keep: 1 }"));
  EXPECT_EQ(t.checkpoint.dir, "here");
  EXPECT_EQ(t.checkpoint.every, 50U);
  EXPECT_EQ(t.checkpoint.keep, 1U);
  expect_refused(plus("checkpoint: { keep: 0 }"), "t.yaml:19:21: SC0118", {"from 1", "got '0'"});
}
TEST(Topology, twins_are_kept_by_default_where_another_node_could_hold_them) {
  EXPECT_FALSE(load(cpu_file).recovery.twins);
  const std::string two = with(cpu_file, "    devices: [{ kind: cpu, count: 4, memory: 2GiB }]\n",
                               "    devices: [{ kind: cpu, count: 2, memory: 2GiB }]\n"
                               "  - name: n1\n    devices: [{ kind: cpu, count: 2, memory: 2GiB }]\n");
  EXPECT_TRUE(load(two).recovery.twins);
  EXPECT_FALSE(load(two, {"recovery.twins=false"}).recovery.twins);
  EXPECT_TRUE(load(cpu_file, {"recovery.twins=true"}).recovery.twins);
  expect_refused(plus("recovery: { twins: yes }"), "t.yaml:19:20: SC0116", {"true or false", "'yes'"});
}
TEST(Topology, a_section_recovery_says_how_often_an_iteration_may_be_begun_again) {
  EXPECT_EQ(load(cpu_file).recovery.attempts, 2U);
  EXPECT_EQ(load(plus("recovery: { attempts: 0 }")).recovery.attempts, 0U);
  EXPECT_EQ(load(plus("recovery: { attempts: 1000000 }")).recovery.attempts, 1'000'000U);
  expect_refused(plus("recovery: { attempts: 1000001 }"), "t.yaml:19:23: SC0118", {"0 to 1000000", "'1000001'"});
  expect_refused(plus("recovery: { attempts: -1 }"), "t.yaml:19:23: SC0118");
  expect_refused(plus("recovery: { attempt: 3 }"), "t.yaml:19:13: SC0114", {"twins, attempts", "'attempt'"});
}
TEST(Topology, kernels_of_a_library_earn_a_warning_about_the_bits) {
  const std::string text = with(cpu_file, "shards: 4", "shards: 4\n  kernels: onednn");
  expect_warned(text, "t.yaml:14:12: SC0262", {"warning: ", "exact", "onednn"});
  EXPECT_EQ(load(text).training.kernels, KernelKind::onednn);
  expect_refused(with(cpu_file, "shards: 4", "shards: 4\n  kernels: fast"), "t.yaml:14:12: SC0121", {"exact, onednn"});
  EXPECT_EQ(load(emulated_file, {"training.kernels=onednn"}).training.kernels, KernelKind::exact);
}
TEST(Topology, costs_on_a_cpu_device_are_refused) {
  expect_refused(with(cpu_file, "memory: 2GiB", "memory: 2GiB, costs: { forward: 1ms }"), "t.yaml:18:52: SC0222");
}
TEST(Topology, an_operator_that_takes_no_time_less_or_more_than_an_hour_is_refused) {
  for (const char* time : {"0ms", "0", "-1ms", ".nan", "nanms", "1e30s", "99999999h"}) {
    const std::string code = time[0] == '0' ? "SC0118" : "SC0120";  // out of range; no duration at all
    expect_refused(with(emulated_file, "backward_input: 10ms", std::string("backward_input: ") + time),
                   "t.yaml:12:49: " + code, {"costs.backward_input", "1 h"});
  }
}

TEST(Topology, an_emulated_device_needs_its_costs) {
  expect_refused(
      with(emulated_file, "        costs: { forward: 10ms, backward_input: 10ms, backward_weight: 10ms }\n", ""),
      "t.yaml:9:9: SC0115", {"costs"});
  expect_refused(with(emulated_file, "backward_input: 10ms, ", ""), "t.yaml:12:9: SC0115", {"costs.backward_input"});
}
TEST(Topology, two_nodes_on_one_address_are_refused) {
  const std::string text = with(cpu_file, "name: n0", "name: n0\n    listen: 10.0.0.1:7000") +
                           "  - name: n1\n    listen: 10.0.0.1:7000\n    devices: [{ kind: cpu, memory: 2GiB }]\n";
  const auto lines = lines_of(load_topology("t.yaml", text));
  ASSERT_FALSE(lines.empty());
  EXPECT_TRUE(lines.back().starts_with("t.yaml:21:13: SC0223: ")) << lines.back();
}
TEST(Topology, an_iteration_of_too_many_operators_is_refused) {
  const auto result = load_topology(
      "t.yaml", emulated_file,
      {"training.micro_batches=65536", "pipeline.stages=1024", "model.layers=1024", "nodes.0.devices.0.count=1024"});
  EXPECT_TRUE(has_code(result, ErrorCode::too_many_operators)) << text_of(result);
}
TEST(Topology, too_many_devices_are_refused_before_they_take_memory) {
  std::string text = emulated_file;
  const std::string more =
      "\n      - { kind: emulated, count: 4096, memory: 1GiB, costs: { forward: 1ms, backward_input: "
      "1ms, backward_weight: 1ms } }";
  for (int i = 0; i < 16; ++i) text.insert(text.size() - 1, more);
  expect_refused(text, "t.yaml:28:34: SC0118", {"65536"});
}
TEST(Topology, cpu_devices_need_the_whole_model_and_data) {
  expect_refused(with(cpu_file, "  width: 256\n", ""), "t.yaml:3:1: SC0115", {"model.width"});
  expect_refused(with(cpu_file, "  heads: 8\n", ""), "t.yaml:3:1: SC0115", {"model.heads"});
  expect_refused(with(cpu_file, "  context: 512\n", ""), "t.yaml:3:1: SC0115", {"model.context"});
  expect_refused(with(cpu_file, "  micro_batch_tokens: 512\n", ""), "t.yaml:8:1: SC0115", {"data.micro_batch_tokens"});
  const auto from = cpu_file.find("data:"), to = cpu_file.find("training:");
  expect_refused(cpu_file.substr(0, from) + cpu_file.substr(to), "t.yaml:1:1: SC0115", {"data"});
}
TEST(Topology, credits_are_auto_or_1_to_64) {
  EXPECT_EQ(load(plus("links: { defaults: { credits: 4 } }")).links.credits, 4U);
  EXPECT_FALSE(load(plus("links: { defaults: { credits: auto } }")).links.credits);
  expect_refused(plus("links: { defaults: { credits: 0 } }"), "t.yaml:19:31: SC0118", {"1 to 64, or auto"});
  expect_refused(plus("links: { defaults: { credits: 65 } }"), "t.yaml:19:31: SC0118");
}

TEST(Topology, spare_devices_are_a_warning) {
  expect_warned(with(cpu_file, "count: 4", "count: 6"), "t.yaml:17:3: SC0250", {"warning: ", "expected 4", "got 6"});
}
TEST(Topology, keys_without_effect_on_emulated_devices_are_a_warning_and_ignored) {
  const std::string text = with(emulated_file, "{ layers: 8 }", "{ layers: 8, width: 4096, heads: 7 }");
  const auto result = load_topology("t.yaml", text);
  ASSERT_TRUE(result.topology) << text_of(result);
  ASSERT_EQ(result.diagnostics.size(), 2U) << text_of(result);
  EXPECT_TRUE(lines_of(result)[0].starts_with("t.yaml:3:28: SC0251: warning: model.width: "));
  EXPECT_EQ(result.topology->model.width, ModelSpec{}.width);
  expect_warned(emulated_file + "data: { sources: [{ files: x }], micro_batch_tokens: 8 }\n", "t.yaml:13:1: SC0251");
}
TEST(Topology, a_final_fraction_without_decay_is_a_warning) {
  expect_warned(with(cpu_file, "shards: 4", "shards: 4\n  optimizer: { schedule: { final_fraction: 0.5 } }"),
                "t.yaml:14:44: SC0251");
}
TEST(Topology, fewer_micro_batches_than_stages_are_a_warning_with_the_share_of_the_bubble) {
  const std::string text = with(with(cpu_file, "micro_batches: 8", "micro_batches: 2"), "shards: 4", "shards: 1");
  expect_warned(text, "t.yaml:12:18: SC0252", {"warning: ", "4 stages", "got 2", "60 %"});  // 3 / (2 + 3)
}
TEST(Topology, chunks_without_layers_are_a_warning) {
  expect_warned(with(cpu_file, "layers: 8", "layers: 3"), "t.yaml:15:11: SC0253", {"[1, 1, 1, 0]", "1 of 4"});
  expect_warned(pipeline("stages: 4\n  layout: [4, 0, 0, 4]"), "t.yaml:16:11: SC0253", {"2 of 4"});
}
TEST(Topology, a_link_value_that_is_stated_twice_is_a_warning_and_the_later_counts) {
  const std::string text = links("{ between: [0, 1], latency: 1ms }, { between: [1, 0], latency: 2ms }");
  expect_warned(text, "t.yaml:19:85: SC0254");
  EXPECT_EQ(link_cost(load(text), {0}, {1}, Direction::forward).latency, 2ms);
}
TEST(Topology, missing_logical_shards_are_the_smallest_power_of_two_and_said) {
  const std::string text = with(pipeline("stages: 1\n  replicas: 4"), "  logical_shards: 4\n", "");
  expect_warned(text, "t.yaml:11:1: SC0255", {"note: ", "took 4", "4 replicas"});
  EXPECT_EQ(load(text).training.logical_shards, 4U);
  EXPECT_EQ(load(text, {"pipeline.replicas=3"}).training.logical_shards, 4U);
  EXPECT_EQ(load(text, {"pipeline.replicas=1"}).training.logical_shards, 1U);
}
TEST(Topology, more_logical_shards_than_micro_batches_are_a_warning) {
  expect_warned(with(cpu_file, "shards: 4", "shards: 16"), "t.yaml:13:19: SC0256", {"8 shards stay empty"});
}
TEST(Topology, replicas_with_unequal_shares_are_a_warning) {
  expect_warned(with(pipeline("stages: 1\n  replicas: 3"), "count: 4", "count: 3"), "t.yaml:16:13: SC0257");
}
TEST(Topology, very_many_micro_batches_are_a_warning) {
  expect_warned(with(cpu_file, "micro_batches: 8", "micro_batches: 20000"), "t.yaml:12:18: SC0258", {"20000"});
}
TEST(Topology, few_credits_are_a_warning) {
  expect_warned(plus("links: { defaults: { credits: 1 } }"), "t.yaml:19:31: SC0259", {"got 1"});
}
TEST(Topology, a_warmup_above_the_work_is_a_warning) {
  expect_warned(pipeline("stages: 4\n  warmup: [9, 3, 2, 1]"), "t.yaml:16:11: SC0260", {"at most 8", "got 9"});
}
TEST(Topology, a_learning_rate_that_is_never_reached_is_a_warning) {
  expect_warned(with(cpu_file, "shards: 4", "shards: 4\n  optimizer: { schedule: { warmup_steps: 31 } }"),
                "t.yaml:14:42: SC0261", {"30", "31"});
}

TEST(Topology, every_neighbouring_pair_gets_the_default_cost_and_overrides_change_what_they_state) {
  const Topology t =
      load(plus("links:\n  defaults: { latency: 5ms, bandwidth: 1GB/s }\n  overrides:\n"
                "    - { between: [2, 1], occupancy: 7ms, direction: backward }\n"
                "    - { between: [2, 3], bandwidth: unlimited }"));
  EXPECT_EQ(t.links.links.size(), 4U);  // 0-1, 1-2 forward, 1-2 backward, 2-3
  EXPECT_EQ(link_cost(t, {0}, {1}, Direction::backward).latency, 5ms);
  EXPECT_EQ(link_cost(t, {1}, {2}, Direction::forward).occupancy, 0ms);
  EXPECT_EQ(link_cost(t, {1}, {2}, Direction::backward).occupancy, 7ms);
  EXPECT_EQ(link_cost(t, {1}, {2}, Direction::backward).latency, 5ms);
  EXPECT_EQ(link_cost(t, {2}, {3}, Direction::forward).bandwidth, Bandwidth{});
  EXPECT_EQ(link_cost(t, {0}, {1}, Direction::forward).bandwidth, Bandwidth{1e9});
  EXPECT_TRUE(link_cost(t, {0}, {2}, Direction::forward).free());
}
TEST(Topology, a_link_has_a_route_which_its_cost_shows) {
  const Topology t =
      load(plus("links:\n  defaults: { route: direct, latency: 5ms }\n  overrides:\n"
                "    - { between: [1, 2], route: auto, admission: 3, staging: 2ms }\n"
                "    - { between: [2, 3], route: delegated, delegates: 4, staging: 1ms, direction: forward }"));
  EXPECT_EQ(link_cost(t, {0}, {1}, Direction::forward).queue, 1U);
  EXPECT_EQ(link_cost(t, {1}, {2}, Direction::backward).queue, 3U) << "auto begins direct";
  EXPECT_EQ(link_cost(t, {1}, {2}, Direction::backward).latency, 5ms);
  EXPECT_EQ(route_spec(t, {2}, {1}, Direction::forward), (RouteSpec{RoutePolicy::automatic, 3, 1, 2ms}));
  const LinkCost delegated = link_cost(t, {2}, {3}, Direction::forward);
  EXPECT_FALSE(delegated.queue);
  EXPECT_EQ(delegated.lanes, 4U);
  EXPECT_EQ(delegated.latency, 6ms);
  EXPECT_EQ(link_cost(t, {2}, {3}, Direction::backward).queue, 1U);
  expect_same(load(describe(t)), t);
  EXPECT_FALSE(link_cost(load(cpu_file), {0}, {1}, Direction::forward).queue) << "the usual route holds up nobody";
  expect_refused(links("{ between: [0, 1], route: nccl }"), "t.yaml:19:48: SC0121", {"delegated, direct, auto"});
  expect_refused(links("{ between: [0, 1], delegates: 65 }"), "t.yaml:19:52: SC0118", {"from 1 to 64"});
}
TEST(Topology, seats_go_through_the_devices_in_file_order_replica_by_replica) {
  const Topology t = load(
      "version: 1\njob: { name: seats, iterations: 1 }\nmodel: { layers: 4 }\n"
      "training: { micro_batches: 8, logical_shards: 2 }\n"
      "pipeline: { stages: 3, replicas: 2 }\nnodes:\n"
      "  - { name: a, devices: [{ kind: emulated, count: 2, memory: 1GiB, costs: { forward: 1ms, "
      "backward_input: 1ms, backward_weight: 1ms } }] }\n"
      "  - { name: b, devices: [{ kind: emulated, count: 4, memory: 2GiB, costs: { forward: 2ms, "
      "backward_input: 1ms, backward_weight: 1ms } }] }\n");
  const auto expect_seat = [&](std::uint32_t stage, std::uint32_t replica, std::uint32_t node, std::uint32_t device) {
    const auto seat = t.seat({{stage}, {replica}});
    EXPECT_EQ(seat.node, node);
    EXPECT_EQ(seat.device, device);
  };
  expect_seat(0, 0, 0, 0);
  expect_seat(1, 0, 0, 1);
  expect_seat(2, 0, 1, 0);
  expect_seat(0, 1, 1, 1);
  expect_seat(2, 1, 1, 3);
  EXPECT_EQ(t.device({{1}, {0}}).costs.forward, 1ms);
  EXPECT_EQ(t.device({{2}, {1}}).costs.forward, 2ms);
  EXPECT_TRUE(t.emulated());
  EXPECT_THROW(t.seat({{3}, {0}}), Bug);
  EXPECT_THROW(t.seat({{0}, {2}}), Bug);
}

}  // namespace
}  // namespace stagecraft
