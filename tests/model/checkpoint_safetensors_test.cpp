#include "model/checkpoint/safetensors.hpp"

#include <bit>

#include <gtest/gtest.h>

#include "model/checkpoint/tensor_files.hpp"
#include "tests/model/checkpoint_fixture.hpp"
#include "transport/memory_disk.hpp"

namespace stagecraft {
namespace {

using test::error_of;
using test::has;
using test::value_of;

std::string with_length(std::uint64_t length, const std::string& rest) {
  const auto bytes = std::bit_cast<std::array<char, 8>>(length);
  return std::string(bytes.begin(), bytes.end()) + rest;
}
std::string file_of(const std::string& header, std::size_t data) {
  return with_length(header.size(), header + std::string(data, 'd'));
}

std::variant<SafetensorsHeader, std::string> read(const std::string& content) {
  MemoryDisk disk;
  EXPECT_FALSE(disk.append("f.safetensors", content));
  return read_safetensors_header(disk, "f.safetensors");
}
std::string refusal(const std::string& content) { return error_of(read(content)); }

const std::string two = R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]},)"
                        R"("a":{"dtype":"F16","shape":[2,2],"data_offsets":[0,8]}})";

TEST(Safetensors, a_header_is_read_in_the_order_of_the_data) {
  const SafetensorsHeader header = value_of(read(file_of(two + "   ", 16)));
  ASSERT_EQ(header.tensors.size(), 2u);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[0].dtype, "F16");
  EXPECT_EQ(header.tensors[0].shape, (std::vector<std::uint64_t>{2, 2}));
  EXPECT_EQ(header.tensors[0].offset, 8 + two.size() + 3);
  EXPECT_EQ(header.tensors[1].offset, header.tensors[0].offset + 8);
  EXPECT_EQ(header.tensors[1].bytes, 8u);
  EXPECT_EQ(header.metadata.at("format"), "pt");
  EXPECT_EQ(value_of(read(file_of("{}", 0))).tensors.size(), 0u);
  EXPECT_EQ(value_of(read(file_of(R"({"s":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
                                  R"("none":{"dtype":"F32","shape":[0,7],"data_offsets":[8,8]}})",
                                  8)))
                .tensors[1]
                .name,
            "none");
}

TEST(Safetensors, a_lie_about_lengths_is_refused_before_memory_is_taken_for_it) {
  EXPECT_TRUE(has(refusal(""), "0 bytes hold no header length"));
  EXPECT_TRUE(has(refusal("1234567"), "7 bytes hold no header length"));
  EXPECT_TRUE(has(refusal(with_length(1ULL << 60U, "{}")), "claims a header of 1152921504606846976 bytes"));
  EXPECT_TRUE(has(refusal(with_length(~0ULL, "{}")), "claims a header of 18446744073709551615 bytes"));
  EXPECT_TRUE(has(refusal(with_length(99'999'999, "{}")), "of 99999999 bytes, but only 2 bytes follow"));
  EXPECT_TRUE(has(refusal(with_length(0, "")), "does not begin with '{'"));
}

TEST(Safetensors, a_header_truncated_at_any_length_is_refused) {
  const std::string whole = file_of(two, 16);
  for (std::size_t n = 0; n < whole.size(); ++n) EXPECT_NE(refusal(whole.substr(0, n)), "no error") << n;
  for (std::size_t n = 0; n < two.size(); ++n) EXPECT_NE(refusal(file_of(two.substr(0, n), 16)), "no error") << n;
}

std::string one(const std::string& members, std::size_t data = 8) {
  return refusal(file_of(R"({"t":{)" + members + "}}", data));
}

TEST(Safetensors, what_makes_no_sense_is_refused_with_tensor_and_numbers) {
  EXPECT_TRUE(has(refusal(file_of("[]", 0)), "does not begin with '{'"));
  EXPECT_TRUE(has(refusal(file_of("{\"t\":", 0)), "is no JSON"));
  EXPECT_TRUE(has(refusal(file_of("{} {}", 0)), "is no JSON"));
  EXPECT_TRUE(has(refusal(file_of("{\"t\xff\":{}}", 0)), "is no JSON"));
  EXPECT_TRUE(has(refusal(file_of(R"({"t":5})", 0)), "'t' is described by no object"));
  EXPECT_TRUE(has(refusal(file_of(R"({"__metadata__":{"a":1}})", 0)), "metadata 'a' is no text"));
  EXPECT_TRUE(has(one(R"("dtype":"F32","shape":[2])"), "tensor 't' has no data_offsets"));
  EXPECT_TRUE(has(one(R"("dtype":"F31","shape":[2],"data_offsets":[0,8])"), "unknown dtype \"F31\""));
  EXPECT_TRUE(has(one(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), "a shape that is no list of sizes"));
  EXPECT_TRUE(has(one(R"("dtype":"F32","shape":2,"data_offsets":[0,8])"), "a shape that is no list of sizes"));
  EXPECT_TRUE(has(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,9])"), "are no two numbers"));
  EXPECT_TRUE(has(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,1e1])"), "are no two numbers"));
  EXPECT_TRUE(has(one(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), "claims bytes 8 to 0 of 8 bytes"));
  EXPECT_TRUE(has(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,16])"), "claims bytes 0 to 16 of 8 bytes"));
  EXPECT_TRUE(has(one(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"),
                  "is F32 of shape [3], which is 12 bytes, but has 8"));
  EXPECT_TRUE(has(one(R"("dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,8])"),
                  "which is more than 2^64 bytes"));
  EXPECT_TRUE(has(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), "4 bytes after the last tensor"));
  EXPECT_TRUE(has(one(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), "a hole of 4 bytes before tensor 't'"));
  const std::string t = R"("t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  EXPECT_TRUE(has(refusal(file_of("{" + t + "," + t + "}", 4)), "'t' is named twice"));
  EXPECT_TRUE(has(refusal(file_of("{" + t + R"(,"u":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})", 6)),
                  "tensor 'u' overlaps the one before by 2 bytes"));
}

TEST(Safetensors, deep_json_is_refused_by_its_depth) {
  for (const std::size_t depth : {10U, 1'000'000U}) {
    const std::string nest = R"({"t":)" + std::string(depth, '[') + std::string(depth, ']') + "}";
    EXPECT_TRUE(has(refusal(file_of(nest, 0)), "nests " + std::to_string(depth + 1) + " levels deep"));
    EXPECT_TRUE(has(refusal(file_of(R"({"t":)" + std::string(depth, '{'), 0)), "levels deep"));
  }
  EXPECT_EQ(refusal(file_of(R"({"[[[[\"{{{{":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 0)), "no error")
      << "brackets in a name are no depth";
}

TEST(Safetensors, a_changed_header_is_refused_or_covers_the_data_exactly) {
  const std::string whole = file_of(two, 16);
  std::size_t accepted = 0;
  for (std::uint64_t n = 0; n < 5'000; ++n) {
    std::string changed = whole;
    for (std::uint64_t change = 0; change <= n % 3; ++change) {
      const std::size_t at = bounded(keyed(1, n, change), changed.size() - 16);
      const char drawn = static_cast<char>(keyed(2, n, change));
      changed[at] = n % 2 == 0 ? drawn : "0123456789{}[]\":, "[bounded(keyed(3, n, change), 18)];
    }
    const auto result = read(changed);
    if (std::holds_alternative<std::string>(result)) continue;
    ++accepted;
    std::uint64_t end = changed.size() - 16;
    for (const TensorEntry& tensor : std::get<SafetensorsHeader>(result).tensors) {
      EXPECT_EQ(tensor.offset, end);
      end += tensor.bytes;
    }
    EXPECT_EQ(end, changed.size());
  }
  EXPECT_GT(accepted, 20u) << "a letter of a name may change";
}

TEST(Safetensors, what_is_written_is_read_back_and_aligned) {
  MemoryDisk disk;
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  auto writer = value_of(SafetensorsWriter::create(
      disk, "f.safetensors", {{.name = "long name", .shape = {2, 2}}, {.name = "b", .shape = {2}}}));
  EXPECT_EQ(writer.write(std::span(values).first(3)), std::nullopt);
  EXPECT_EQ(writer.write(std::span(values).subspan(3)), std::nullopt);
  const WrittenFile file = value_of(writer.finish());
  const std::string content = disk.read("f.safetensors").value();
  EXPECT_EQ(file.name, "f.safetensors");
  EXPECT_EQ(file.bytes, content.size());
  EXPECT_EQ(file.xxh128, Checksum().update(content).hex());
  const SafetensorsHeader header = value_of(read(content));
  EXPECT_EQ(header.metadata, (std::map<std::string, std::string>{{"format", "pt"}}));
  EXPECT_EQ(header.tensors[0].offset % 8, 0u);
  const TensorFiles files = value_of([&]() -> std::variant<TensorFiles, std::string> {
    EXPECT_FALSE(disk.make_directories("d"));
    EXPECT_FALSE(disk.rename("f.safetensors", "d/model.safetensors"));
    return TensorFiles::open(disk, "d", "model");
  }());
  std::vector<float> back(2);
  EXPECT_EQ(files.read(disk, "b", back), std::nullopt);
  EXPECT_EQ(back, (std::vector<float>{5, 6}));
  EXPECT_TRUE(has(files.read(disk, "long name", back).value_or(""), "is F32 [2, 2], not 2 numbers of F32"));
  EXPECT_TRUE(has(files.read(disk, "c", back).value_or(""), "tensor 'c' is not in 'd'"));
}

TEST(Safetensors, a_writer_that_was_given_too_little_or_too_much_does_not_finish) {
  for (const std::size_t count : {1U, 3U}) {
    MemoryDisk disk;
    auto writer = value_of(SafetensorsWriter::create(disk, "f.safetensors", {{.name = "t", .shape = {2}}}));
    EXPECT_EQ(writer.write(std::vector<float>(count)), std::nullopt);
    EXPECT_TRUE(has(error_of(writer.finish()), "its header promises 8")) << count;
  }
}

// "d" with the tensors a and c in the first file, b in the second, and an index.
std::string refusal_of_index(const std::string& index) {
  MemoryDisk disk;
  EXPECT_FALSE(disk.make_directories("d"));
  const std::string first =
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"c":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})";
  const std::string second = R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  EXPECT_FALSE(disk.append("d/" + tensor_file_of("model", 1, 2), file_of(first, 8)));
  EXPECT_FALSE(disk.append("d/" + tensor_file_of("model", 2, 2), file_of(second, 4)));
  EXPECT_FALSE(disk.append("d/" + index_file_of("model"), index));
  const auto files = TensorFiles::open(disk, "d", "model");
  if (const auto* opened = std::get_if<TensorFiles>(&files)) {
    EXPECT_EQ(opened->stored_order(), (std::vector<std::string>{"a", "c", "b"}));
    EXPECT_EQ(opened->files().size(), 3u);
    EXPECT_EQ(opened->bytes(), 12u);
  }
  return error_of(files);
}

TEST(Safetensors, a_split_model_is_read_by_its_index_which_has_to_agree_with_the_files) {
  const std::string one = "model-00001-of-00002.safetensors", other = "model-00002-of-00002.safetensors";
  const auto map = [](const std::string& members) { return R"({"metadata":{},"weight_map":{)" + members + "}}"; };
  const auto entry = [](const std::string& name, const std::string& file) { return '"' + name + "\":\"" + file + '"'; };
  const std::string a = entry("a", one) + ",", c = entry("c", one) + ",";
  EXPECT_EQ(refusal_of_index(map(a + c + entry("b", other))), "no error");
  EXPECT_TRUE(has(refusal_of_index(map(a + c + entry("b", one))), "tensor 'b' is not in '" + one));
  EXPECT_TRUE(has(refusal_of_index(map(a + c + entry("x", other))), "tensor 'x' is not in '" + other));
  EXPECT_TRUE(has(refusal_of_index(map(a + entry("b", other))), "tensor 'c' of '" + one + "' is not in it"));
  EXPECT_TRUE(has(refusal_of_index(map(entry("a", "../" + one))), "no safetensors file of this folder"));
  EXPECT_TRUE(has(refusal_of_index(map(entry("a", "model.safetensors.index.json"))), "no safetensors file of"));
  EXPECT_TRUE(has(refusal_of_index(map(entry("a", "model-3.safetensors"))), "No such file"));
  EXPECT_TRUE(has(refusal_of_index(map("\"a\":7")), "the file of tensor 'a' is no text"));
  EXPECT_TRUE(has(refusal_of_index("{}"), "no JSON object with a weight_map"));
  EXPECT_TRUE(has(refusal_of_index("nonsense"), "no JSON object with a weight_map"));
  EXPECT_TRUE(has(refusal_of_index(std::string(1000, '[')), "nests 1000 levels deep"));
}

}  // namespace
}  // namespace stagecraft
