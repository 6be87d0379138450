// The GGUF file, read back by a small reader that shares nothing with the writer.
#include "model/checkpoint/gguf.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>

#include "model/checkpoint/byte_vocabulary.hpp"
#include "tests/model/export_fixture.hpp"

namespace stagecraft {
namespace {

// What a key holds, as far as our files go.
struct Value {
  std::uint32_t type = 0;
  double number = 0;
  std::string text;
  std::vector<Value> items;
};
struct ReadTensor {
  std::vector<std::uint64_t> sizes;  // fastest first
  std::uint32_t type = 99;
  std::uint64_t offset = 0;
};

class GgufFile {
 public:
  explicit GgufFile(std::string bytes) : bytes_(std::move(bytes)) {
    EXPECT_EQ(take(4), "GGUF");
    EXPECT_EQ(number<std::uint32_t>(), 3U);
    const auto tensor_count = number<std::uint64_t>(), key_count = number<std::uint64_t>();
    for (std::uint64_t i = 0; i < key_count; ++i) {
      const std::string name = string();
      EXPECT_TRUE(keys.emplace(name, value(number<std::uint32_t>())).second) << name << " twice";
    }
    for (std::uint64_t i = 0; i < tensor_count; ++i) {
      const std::string name = string();
      ReadTensor tensor;
      tensor.sizes.resize(number<std::uint32_t>());
      for (std::uint64_t& size : tensor.sizes) size = number<std::uint64_t>();
      tensor.type = number<std::uint32_t>();
      tensor.offset = number<std::uint64_t>();
      EXPECT_TRUE(tensors.emplace(name, tensor).second) << name << " twice";
    }
    data_ = (at_ + 31) / 32 * 32;
  }

  std::size_t size() const { return bytes_.size(); }
  std::size_t data() const { return data_; }
  test::Floats values(const std::string& name) const {
    const ReadTensor& tensor = tensors.at(name);
    test::Floats floats(std::accumulate(tensor.sizes.begin(), tensor.sizes.end(), std::size_t{1}, std::multiplies<>()));
    EXPECT_LE(data_ + tensor.offset + floats.size() * 4, bytes_.size()) << name;
    if (data_ + tensor.offset + floats.size() * 4 <= bytes_.size())
      std::memcpy(floats.data(), bytes_.data() + data_ + tensor.offset, floats.size() * 4);
    return floats;
  }

  std::map<std::string, Value> keys;
  std::map<std::string, ReadTensor> tensors;

 private:
  std::string take(std::size_t size) {
    if (size > bytes_.size() - at_) throw std::runtime_error("the file ends early");
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string string() { return take(number<std::uint64_t>()); }
  Value value(std::uint32_t type) {
    Value v;
    v.type = type;
    switch (type) {
      case 4:
        v.number = number<std::uint32_t>();
        break;
      case 5:
        v.number = number<std::int32_t>();
        break;
      case 6:
        v.number = static_cast<double>(number<float>());
        break;
      case 7:
        v.number = number<std::uint8_t>();
        break;
      case 8:
        v.text = string();
        break;
      case 9: {
        const auto inner = number<std::uint32_t>();
        for (auto left = number<std::uint64_t>(); left > 0; --left) v.items.push_back(value(inner));
        break;
      }
      default:
        throw std::runtime_error("unknown value type " + std::to_string(type));
    }
    return v;
  }

  std::string bytes_;
  std::size_t at_ = 0, data_ = 0;
};

GgufFile exported(test::Stored& stored) {
  EXPECT_EQ(export_gguf(stored.disk, stored.path, "out/model.gguf"), std::nullopt);
  return GgufFile(stored.disk.read("out/model.gguf").value());
}

// Row r of the file's head is row (r mod 2) * h / 2 + r / 2 of ours: pairs stand side by side.
test::Floats back_to_halves(const test::Floats& interleaved, std::size_t head_size, std::size_t columns) {
  test::Floats halves(interleaved.size());
  const std::size_t rows = interleaved.size() / columns;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t head = row / head_size, r = row % head_size;
    const std::size_t to = head * head_size + (r % 2) * (head_size / 2) + r / 2;
    std::copy_n(interleaved.begin() + static_cast<std::ptrdiff_t>(row * columns), columns,
                halves.begin() + static_cast<std::ptrdiff_t>(to * columns));
  }
  return halves;
}

TEST(Gguf, rotary_pairs_stand_side_by_side) {
  for (const std::size_t head_size : {2U, 6U, 64U, 128U}) {
    std::set<std::size_t> places;
    for (std::size_t i = 0; i < head_size / 2; ++i) {
      EXPECT_EQ(interleaved_row(i, head_size), 2 * i);
      EXPECT_EQ(interleaved_row(i + head_size / 2, head_size), 2 * i + 1);
    }
    for (std::size_t row = 0; row < head_size; ++row) places.insert(interleaved_row(row, head_size));
    EXPECT_EQ(places.size(), head_size);
    EXPECT_EQ(*places.rbegin(), head_size - 1);
  }
}

TEST(Gguf, tensors_are_the_parameters_of_the_model) {
  for (const bool tied : {false, true}) {
    const ModelSpec spec = test::small_byte_model(tied);
    const auto tensors = gguf_tensors(spec);
    const LlamaArithmetic arithmetic(spec, 1);
    ASSERT_EQ(tensors.size(), arithmetic.parameters().size());
    for (const ParameterInfo& parameter : arithmetic.parameters()) {
      const auto found =
          std::find_if(tensors.begin(), tensors.end(), [&](const GgufTensor& t) { return t.source == parameter.name; });
      ASSERT_NE(found, tensors.end()) << parameter.name;
      EXPECT_EQ(found->shape, parameter.shape) << parameter.name;
      const bool turned = parameter.name.ends_with("q_proj.weight") || parameter.name.ends_with("k_proj.weight");
      EXPECT_EQ(found->head_size, turned ? 6U : 0U) << parameter.name;
    }
  }
}

TEST(Gguf, header_says_what_the_model_is) {
  ModelSpec spec = test::small_byte_model(false);
  spec.rope_theta = 5000.5;
  test::Stored stored(spec);
  const GgufFile file = exported(stored);
  const std::map<std::string, std::pair<std::uint32_t, double>> numbers{
      {"general.alignment", {4, 32}},
      {"general.file_type", {4, 0}},
      {"llama.vocab_size", {4, 257}},
      {"llama.context_length", {4, 32}},
      {"llama.embedding_length", {4, 24}},
      {"llama.block_count", {4, 2}},
      {"llama.feed_forward_length", {4, 40}},
      {"llama.attention.head_count", {4, 4}},
      {"llama.attention.head_count_kv", {4, 2}},
      {"llama.attention.layer_norm_rms_epsilon", {6, static_cast<double>(1e-5F)}},
      {"llama.rope.dimension_count", {4, 6}},
      {"llama.rope.freq_base", {6, 5000.5}},
      {"tokenizer.ggml.bos_token_id", {4, 256}},
      {"tokenizer.ggml.eos_token_id", {4, 256}},
      {"tokenizer.ggml.add_bos_token", {7, 0}},
      {"tokenizer.ggml.add_eos_token", {7, 0}},
      {"tokenizer.ggml.add_space_prefix", {7, 0}},
  };
  for (const auto& [key, expected] : numbers) {
    ASSERT_TRUE(file.keys.contains(key)) << key;
    EXPECT_EQ(file.keys.at(key).type, expected.first) << key;
    EXPECT_EQ(file.keys.at(key).number, expected.second) << key;
  }
  EXPECT_EQ(file.keys.at("general.architecture").text, "llama");
  EXPECT_EQ(file.keys.at("general.name").text, "small");
  EXPECT_EQ(file.keys.at("tokenizer.ggml.model").text, "gpt2");
  EXPECT_TRUE(file.keys.at("tokenizer.ggml.merges").items.empty());
  const auto& tokens = file.keys.at("tokenizer.ggml.tokens").items;
  const auto& types = file.keys.at("tokenizer.ggml.token_type").items;
  const auto texts = byte_vocabulary();
  ASSERT_EQ(tokens.size(), 257U);
  ASSERT_EQ(types.size(), 257U);
  for (std::size_t token = 0; token < 257; ++token) {
    EXPECT_EQ(tokens[token].text, texts[token]);
    EXPECT_EQ(types[token].number, token == 256 ? 3 : 1);
  }
}

TEST(Gguf, holds_every_parameter_bit_for_bit_once_its_rows_are_turned_back) {
  for (const bool tied : {false, true}) {
    SCOPED_TRACE(tied);
    test::Stored stored(test::small_byte_model(tied));
    const GgufFile file = exported(stored);
    EXPECT_EQ(file.tensors.contains("output.weight"), !tied);
    const auto expected = gguf_tensors(test::small_byte_model(tied));
    ASSERT_EQ(file.tensors.size(), expected.size());
    std::map<std::uint64_t, std::uint64_t> places;  // begin -> end
    for (const GgufTensor& tensor : expected) {
      SCOPED_TRACE(tensor.name);
      ASSERT_TRUE(file.tensors.contains(tensor.name));
      const ReadTensor& read = file.tensors.at(tensor.name);
      EXPECT_EQ(read.type, 0U);
      EXPECT_EQ(read.offset % 32, 0U);
      EXPECT_TRUE(std::equal(read.sizes.begin(), read.sizes.end(), tensor.shape.rbegin(), tensor.shape.rend()));
      test::Floats values = file.values(tensor.name);
      places[read.offset] = read.offset + values.size() * 4;
      if (tensor.head_size > 0) {
        EXPECT_NE(values, stored.parameter(tensor.source));
        values = back_to_halves(values, tensor.head_size, 24);
      }
      EXPECT_TRUE(test::same_bits(values, stored.parameter(tensor.source)));
    }
    std::uint64_t end = 0;
    for (const auto& [begin, tensor_end] : places) {
      EXPECT_GE(begin, end);
      EXPECT_LT(begin - end, 32U);
      end = tensor_end;
    }
    EXPECT_EQ(file.size(), file.data() + (end + 31) / 32 * 32);
  }
}

}  // namespace
}  // namespace stagecraft
