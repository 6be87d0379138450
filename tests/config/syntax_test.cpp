// What is refused before anything is known about topologies, each with its position.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>

#include "tests/config/examples.hpp"

namespace stagecraft {
namespace {

TEST(Syntax, a_file_above_one_mebibyte_is_refused) {
  expect_refused(cpu_file + std::string(1 << 20, '#'), "t.yaml:1:1: SC0101", {"1048576", "right file"});
}
TEST(Syntax, bytes_that_are_not_utf8_are_refused_where_they_stand) {
  expect_refused("version: 1\njob: \xff\n", "t.yaml:2:6: SC0102");
  expect_refused("version: 1\njob: \xc0\xaf\n", "t.yaml:2:6: SC0102");      // overlong
  expect_refused("version: 1\njob: \xed\xa0\x80\n", "t.yaml:2:6: SC0102");  // surrogate
  expect_refused("version: 1\njob: \xe2\x82", "t.yaml:2:6: SC0102");        // cut off
}
TEST(Syntax, control_characters_are_refused_where_they_stand) {
  expect_refused(std::string("version: 1\0\n", 12), "t.yaml:1:11: SC0102");
  expect_refused("version: 1\rjob: 2\n", "t.yaml:1:11: SC0102");
}
TEST(Syntax, lines_may_end_like_on_windows_and_begin_with_a_byte_order_mark) {
  std::string text = "\xef\xbb\xbf";
  for (char c : cpu_file) text += c == '\n' ? "\r\n" : std::string(1, c);
  EXPECT_EQ(describe(load(text)), describe(load(cpu_file)));
}
TEST(Syntax, broken_yaml_is_refused_where_reading_stopped) {
  expect_refused("version: 1\njob: { name: a } b\n", "t.yaml:2:18: SC0103");
  expect_refused("version: 1\n  job: 2\n", "t.yaml:2:6: SC0103");
  expect_refused("version: @1\n", "t.yaml:1:10: SC0103");
}
TEST(Syntax, nesting_beyond_32_levels_is_refused) {
  expect_refused("a: " + std::string(33, '[') + std::string(33, ']'), "t.yaml:1:35: SC0104", {"32"});
  expect_refused(std::string(100'000, '['), "t.yaml:1:17: SC0104");
  std::string dashes;
  for (int i = 0; i < 100'000; ++i) dashes += "- ";
  expect_refused(dashes, "t.yaml:1:65: SC0104");
}
TEST(Syntax, nesting_of_32_levels_is_read) {
  const auto result = load_topology("t.yaml", "a: " + std::string(31, '[') + std::string(31, ']'));
  EXPECT_FALSE(has_code(result, ErrorCode::too_deep)) << text_of(result);
}
TEST(Syntax, more_than_a_hundred_thousand_values_are_refused) {
  std::string text = "a: [";
  for (int i = 0; i < 100'000; ++i) text += "1,\n";
  expect_refused(text + "]", "t.yaml:99998:1: SC0105", {"100000"});
}
TEST(Syntax, anchors_and_aliases_are_refused) {
  expect_refused("version: &v 1\n", "t.yaml:1:10: SC0106");
  expect_refused("version: *v\n", "t.yaml:1:10: SC0106");
  expect_refused("version: 1\njob: &j { name: a }\nmodel: *j\n", "t.yaml:2:6: SC0106");
}
TEST(Syntax, an_alias_bomb_is_refused_at_once) {
  std::string text = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 30; ++i) {
    text += fmt::format("a{}: &a{} [", i, i);
    for (int k = 0; k < 9; ++k) text += fmt::format("*a{},", i - 1);
    text += "]\n";
  }
  expect_refused(text, "t.yaml:1:5: SC0106");
}
TEST(Syntax, a_second_document_is_refused) {
  expect_refused("version: 1\n---\njob: 2\n", "t.yaml:2:1: SC0107");
  expect_refused(cpu_file + "...\nversion: 2\n", "t.yaml:20:1: SC0107");
}
TEST(Syntax, text_after_the_end_of_the_first_document_is_refused) {
  expect_refused("- 1\nb: 2\n", "t.yaml:2:1: SC0107");
  expect_refused("{ version: 1 }\njob: { name: x }\n", "t.yaml:2:1: SC0107");
}
TEST(Syntax, a_quote_without_an_end_is_refused_where_it_opens) {
  expect_refused("version: 1\njob: { name: \"x }\nmodel: 1\n", "t.yaml:2:14: SC0108");
  expect_refused("version: 1 # it's\njob: 'x\n", "t.yaml:2:6: SC0108");
  expect_refused("version: 1\njob: [\"a\", \"b]\n", "t.yaml:2:12: SC0108");
}
TEST(Syntax, a_tab_in_the_indentation_is_refused) {
  expect_refused("version: 1\nmodel:\n\tlayers: 8\n", "t.yaml:3:1: SC0109");
  expect_refused("version: 1\nmodel:\n  \tlayers: 8\n", "t.yaml:3:3: SC0109");
}
TEST(Syntax, a_tab_elsewhere_does_no_harm) {
  EXPECT_EQ(load(with(cpu_file, "  layers: 8", "  layers:\t8\t# eight")).model.layers, 8U);
}
TEST(Syntax, an_empty_file_is_refused) {
  expect_refused("", "t.yaml:1:1: SC0110");
  expect_refused("# nothing\n\n", "t.yaml:1:1: SC0110");
}
TEST(Syntax, tags_and_directives_are_refused) {
  expect_refused(with(cpu_file, "layers: 8", "layers: !!int 8"), "t.yaml:4:11: SC0111", {"2002:int"});
  expect_refused(with(cpu_file, "layers: 8", "layers: !mine 8"), "t.yaml:4:11: SC0111");
  expect_refused("%YAML 1.1\n---\n" + cpu_file, "t.yaml:1:1: SC0111");
}
TEST(Syntax, keys_that_are_no_words_are_refused) {
  expect_refused(cpu_file + "? [a, b]\n: 1\n", "t.yaml:19:3: SC0112", {"a list"});
  expect_refused(cpu_file + "? { a: b }\n: 1\n", "t.yaml:19:3: SC0112", {"a map"});
  expect_refused(cpu_file + "~: 1\n", "t.yaml:19:1: SC0112", {"nothing"});
}
TEST(Syntax, a_merge_key_is_refused) {
  const auto result = load_topology("t.yaml", cpu_file + "<<: { a: 1 }\n");
  EXPECT_TRUE(lines_of(result).at(0).starts_with("t.yaml:19:1: SC0112: ")) << text_of(result);
}
TEST(Syntax, a_duplicate_key_is_refused_with_the_place_of_the_first) {
  expect_refused(with(cpu_file, "  stages: 4\n", "  stages: 4\n  stages: 8\n"), "t.yaml:16:3: SC0113",
                 {"pipeline.stages", "line 15, column 3"});
  expect_refused(cpu_file + "version: 1\n", "t.yaml:19:1: SC0113", {"version", "line 1, column 1"});
}
TEST(Syntax, an_unknown_key_is_refused_with_a_guess) {
  const std::string text = with(cpu_file, "  context: 512", "  context: 512\n  layrs: 8");
  expect_refused(text, "t.yaml:8:3: SC0114", {"model.layrs", "did you mean 'layers'?", "layers, width, heads"});
  expect_refused(cpu_file + "tmieouts: {}\n", "t.yaml:19:1: SC0114", {"did you mean 'timeouts'?"});
}
TEST(Syntax, an_unknown_key_that_is_like_no_other_gets_no_guess) {
  const auto lines = lines_of(load_topology("t.yaml", cpu_file + "weather: fine\n"));
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].find("did you mean"), std::string::npos) << lines[0];
}
TEST(Syntax, a_missing_blank_after_a_colon_is_guessed) {
  expect_refused("version:1", "t.yaml:1:1: SC0116", {"blank missing"});
  expect_refused(with(cpu_file, "iterations: 30 }", "iterations: 30, seed:8 }"), "t.yaml:2:51: SC0114",
                 {"blank missing"});
}
TEST(Syntax, a_missing_key_is_refused_at_the_map_that_should_hold_it) {
  expect_refused(with(cpu_file, "  layers: 8\n", ""), "t.yaml:3:1: SC0115",
                 {"model.layers", "an integer from 1 to 1024"});
  expect_refused(with(cpu_file, "name: quickstart, ", ""), "t.yaml:2:1: SC0115", {"job.name"});
  expect_refused(with(cpu_file, "version: 1\n", ""), "t.yaml:1:1: SC0115", {"version"});
}
TEST(Syntax, a_missing_section_is_one_problem_not_one_per_key) {
  expect_refused(with(cpu_file, "job: { name: quickstart, seed: 7, iterations: 30 }\n", ""), "t.yaml:1:1: SC0115",
                 {"job"});
  expect_refused(with(cpu_file, "job: { name: quickstart, seed: 7, iterations: 30 }\n", "job:\n"), "t.yaml:2:1: SC0116",
                 {"job", "nothing"});
}
TEST(Syntax, a_value_of_the_wrong_type_is_refused) {
  expect_refused(with(cpu_file, "layers: 8", "layers: eight"), "t.yaml:4:11: SC0116", {"an integer", "'eight'"});
  expect_refused(with(cpu_file, "layers: 8", "layers: \"8\""), "t.yaml:4:11: SC0116", {"remove the quotes"});
  expect_refused(with(cpu_file, "layers: 8", "layers: 8.0"), "t.yaml:4:11: SC0116");
  expect_refused(with(cpu_file, "layers: 8", "layers: 1e3"), "t.yaml:4:11: SC0116");
  expect_refused(with(cpu_file, "layers: 8", "layers: [8]"), "t.yaml:4:11: SC0116", {"a list"});
  expect_refused(with(cpu_file, "layers: 8", "layers:"), "t.yaml:4:3: SC0116", {"nothing"});
  expect_refused(with(cpu_file, "context: 512", "context: 512\n  tied_embeddings: yes"), "t.yaml:8:20: SC0116",
                 {"true or false", "'yes'"});
  expect_refused(with(cpu_file, "stages: 4", "stages: 4\n  layout: [2 2, 2, 2]"), "t.yaml:16:12: SC0116",
                 {"comma missing"});
  expect_refused(with(cpu_file, "context: 512", "context: 512\n  rope_theta: big"), "t.yaml:8:15: SC0116");
  expect_refused("[1, 2]", "t.yaml:1:1: SC0116", {"a map"});
}
TEST(Syntax, numbers_that_readers_understand_differently_are_refused) {
  for (const char* text : {"017", "0x1f", "0o17", "1_0", "-08", "0b1"}) {
    expect_refused(with(cpu_file, "layers: 8", std::string("layers: ") + text), "t.yaml:4:11: SC0117", {text});
  }
  expect_refused(with(cpu_file, "context: 512", "context: 512\n  rope_theta: 010000.0"), "t.yaml:8:15: SC0117");
}
TEST(Syntax, a_number_out_of_its_range_is_refused) {
  for (const char* text : {"0", "1025", "-1", "99999999999999999999999"}) {
    expect_refused(with(cpu_file, "layers: 8", std::string("layers: ") + text), "t.yaml:4:11: SC0118",
                   {"from 1 to 1024", text});
  }
  for (const char* text : {"1e999", "1e-999", "0", "-3"}) {
    expect_refused(with(cpu_file, "context: 512", std::string("context: 512\n  norm_epsilon: ") + text),
                   "t.yaml:8:17: SC0118", {"above 0 and at most 1"});
  }
  expect_refused(with(cpu_file, "memory: 2GiB", "memory: 2KiB"), "t.yaml:18:46: SC0118", {"1 MiB"});
}
TEST(Syntax, numbers_that_are_not_finite_are_refused) {
  for (const char* text : {".inf", "-.inf", ".nan", "inf", "nan"}) {
    expect_refused(with(cpu_file, "context: 512", std::string("context: 512\n  rope_theta: ") + text),
                   "t.yaml:8:15: SC0119", {text});
  }
}
TEST(Syntax, sizes_and_durations_need_their_units) {
  expect_refused(with(cpu_file, "memory: 2GiB", "memory: 2"), "t.yaml:18:46: SC0120", {"64MiB"});
  expect_refused(with(cpu_file, "memory: 2GiB", "memory: 2 GiB"), "t.yaml:18:46: SC0120");
  expect_refused(cpu_file + "timeouts: { operation: 60 }\n", "t.yaml:19:24: SC0120", {"10ms"});
  expect_refused(cpu_file + "links: { defaults: { bandwidth: 5GB } }\n", "t.yaml:19:33: SC0120", {"50GB/s"});
}
TEST(Syntax, an_unknown_word_is_refused_with_the_known_ones_and_a_guess) {
  expect_refused(with(cpu_file, "stages: 4", "stages: 4\n  schedule: 1f1"), "t.yaml:16:13: SC0121",
                 {"gpipe, 1f1b, interleaved, bfs", "did you mean '1f1b'?"});
  expect_refused(with(cpu_file, "context: 512", "context: 512\n  vocabulary: 50000"), "t.yaml:8:15: SC0121", {"bytes"});
}
TEST(Syntax, texts_that_are_empty_too_long_or_unprintable_are_refused) {
  expect_refused(with(cpu_file, "name: quickstart", "name: \"\""), "t.yaml:2:14: SC0124");
  expect_refused(with(cpu_file, "name: quickstart", "name: " + std::string(65, 'x')), "t.yaml:2:14: SC0124", {"65"});
  expect_refused(with(cpu_file, "name: quickstart", "name: \"a b\""), "t.yaml:2:14: SC0124", {"my-run-7"});
  expect_refused(with(cpu_file, "name: quickstart", "name: ../x"), "t.yaml:2:14: SC0124");
  expect_refused(cpu_file + "output: { dir: \"a\\nb\" }\n", "t.yaml:19:16: SC0124", {"a\\x0ab"});
  expect_refused(cpu_file + "output: { dir: \"a\\0b\" }\n", "t.yaml:19:16: SC0124", {"zero"});
}
TEST(Syntax, lists_of_the_wrong_length_are_refused) {
  expect_refused(with(cpu_file, "[{ kind: cpu, count: 4, memory: 2GiB }]", "[]"), "t.yaml:18:14: SC0125", {"got 0"});
  expect_refused(cpu_file + "links: { overrides: [{ between: [0, 1, 2] }] }\n", "t.yaml:19:33: SC0125", {"got 3"});
}
TEST(Syntax, all_problems_are_reported_at_once_and_sorted_by_position) {
  const auto result = load_topology("t.yaml",
                                    "version: 1\n"
                                    "nodes: [{ name: n0, devices: [{ kind: cpu, count: 4, memory: 2 }] }]\n"
                                    "pipeline: { stages: 0, shcedule: gpipe }\n"
                                    "training: { micro_batches: 017, optimizer: { clip: .nan }, logical_shards: 4 }\n"
                                    "model: { layers: 30, width: 25, heads: 2, heads: 2, context: 8 }\n"
                                    "data: { sources: [{ files: x }], micro_batch_tokens: 4 }\n"
                                    "job: { name: a b, iterations: many }\n");
  const std::vector<std::string> heads{"t.yaml:2:62: SC0120", "t.yaml:3:21: SC0118", "t.yaml:3:24: SC0114",
                                       "t.yaml:4:28: SC0117", "t.yaml:4:52: SC0119", "t.yaml:5:40: SC0206",
                                       "t.yaml:5:43: SC0113", "t.yaml:6:54: SC0209", "t.yaml:7:14: SC0124",
                                       "t.yaml:7:31: SC0116"};
  const auto lines = lines_of(result);
  ASSERT_EQ(lines.size(), heads.size()) << text_of(result);
  for (std::size_t i = 0; i < heads.size(); ++i) EXPECT_TRUE(lines[i].starts_with(heads[i] + ": ")) << lines[i];
  EXPECT_FALSE(result.topology);
}
TEST(Syntax, the_largest_hostile_texts_are_answered_within_seconds) {
  const auto repeat = [](const std::string& piece) {
    std::string text;
    while (text.size() + piece.size() < (1 << 20)) text += piece;
    return text;
  };
  const auto begin = std::chrono::steady_clock::now();
  for (const char* piece :
       {"[",   "{",  "{a: ", "- ",    "-\n",   "? ", "a:",  "&a ",    "*a ", "!a ", "'",  "\"",     "a ",
        "a\n", "[]", ":\n",  "---\n", "...\n", ",",  "|\n", "k: 1\n", "#",   "%\n", "\\", "\"\\x41"}) {
    EXPECT_FALSE(load_topology("t.yaml", repeat(piece)).topology) << piece;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

}  // namespace
}  // namespace stagecraft
