// Exports to a Hugging Face folder: config.json, the tokenizer, and all or nothing. The GGUF file: gguf_test.cpp.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "model/checkpoint/byte_vocabulary.hpp"
#include "model/checkpoint/gguf.hpp"
#include "model/checkpoint/hugging_face.hpp"
#include "model/checkpoint/tensor_files.hpp"
#include "model/corpus.hpp"
#include "tests/model/export_fixture.hpp"
#include "transport/faulty_disk.hpp"

namespace stagecraft {
namespace {

using Json = nlohmann::json;

ModelSpec random_spec(std::uint64_t n) {
  std::uint64_t draws = 0;
  const auto draw = [&](std::uint64_t below) { return static_cast<std::uint32_t>(bounded(keyed(n, draws++), below)); };
  const auto fraction = [&] { return static_cast<double>(keyed(n, draws++) >> 11) * 0x1p-53; };
  ModelSpec spec;
  spec.layers = 1 + draw(100);
  spec.kv_heads = 1 + draw(8);
  spec.heads = spec.kv_heads * (1 + draw(4));
  spec.width = spec.heads * 2 * (1 + draw(64));
  spec.hidden = 1 + draw(20000);
  spec.context = 2 + draw(100000);
  spec.vocabulary = 1 + draw(65536);
  spec.tied_embeddings = draw(2) == 1;
  spec.rope_theta = 1 + 1e6 * fraction();
  spec.norm_epsilon = 1e-12 + fraction() / 3;
  return spec;
}

void expect_same(const ModelSpec& a, const ModelSpec& b) {
  EXPECT_EQ(a.layers, b.layers);
  EXPECT_EQ(a.width, b.width);
  EXPECT_EQ(a.heads, b.heads);
  EXPECT_EQ(a.kv_heads, b.kv_heads);
  EXPECT_EQ(a.hidden, b.hidden);
  EXPECT_EQ(a.context, b.context);
  EXPECT_EQ(a.vocabulary, b.vocabulary);
  EXPECT_EQ(a.tied_embeddings, b.tied_embeddings);
  EXPECT_EQ(a.rope_theta, b.rope_theta);
  EXPECT_EQ(a.norm_epsilon, b.norm_epsilon);
}

ModelSpec parsed(const std::string& text) {
  const auto result = parse_config(text);
  if (const auto* why = std::get_if<std::string>(&result)) {
    ADD_FAILURE() << *why;
    return {};
  }
  return std::get<ModelSpec>(result);
}

std::string refusal(const std::string& text) {
  const auto result = parse_config(text);
  return std::holds_alternative<std::string>(result) ? std::get<std::string>(result) : "accepted";
}

std::string with(const std::string& key, const Json& value) {
  Json json = Json::parse(config_json(test::small_byte_model(false)));
  json[key] = value;
  return json.dump();
}
std::string without(std::initializer_list<const char*> keys) {
  Json json = Json::parse(config_json(test::small_byte_model(false)));
  for (const char* key : keys) json.erase(key);
  return json.dump();
}

TEST(HuggingFaceConfig, comes_back_from_its_text_exactly) {
  for (std::uint64_t n = 0; n < 300; ++n) {
    SCOPED_TRACE(n);
    const ModelSpec spec = random_spec(n);
    expect_same(parsed(config_json(spec)), spec);
  }
}

TEST(HuggingFaceConfig, is_written_for_both_generations_of_readers) {
  ModelSpec spec = test::small_byte_model(true);
  spec.rope_theta = 12345.5;
  const Json json = Json::parse(config_json(spec));
  EXPECT_EQ(json["rope_theta"], 12345.5);
  EXPECT_EQ(json["rope_parameters"], Json({{"rope_type", "default"}, {"rope_theta", 12345.5}}));
  EXPECT_TRUE(json.contains("rope_scaling"));
  EXPECT_EQ(json["torch_dtype"], "float32");
  EXPECT_EQ(json["dtype"], "float32");
  EXPECT_EQ(json["architectures"], Json::array({"LlamaForCausalLM"}));
  EXPECT_EQ(json["tie_word_embeddings"], true);
  EXPECT_EQ(json["head_dim"], 6);
  EXPECT_EQ(json["bos_token_id"], separator_token);
  EXPECT_EQ(json["eos_token_id"], separator_token);
}

TEST(HuggingFaceConfig, of_one_generation_alone_is_read) {
  const ModelSpec spec = test::small_byte_model(false);
  expect_same(parsed(without({"rope_parameters", "dtype", "head_dim"})), spec);
  expect_same(parsed(without({"rope_theta", "rope_scaling", "torch_dtype"})), spec);
}

TEST(HuggingFaceConfig, that_is_not_ours_is_refused_by_key) {
  const std::pair<std::string, const char*> offenders[] = {
      {with("model_type", "gpt2"), "model_type: expected \"llama\" (the only architecture here), got \"gpt2\""},
      {with("hidden_size", "wide"), "hidden_size: expected a whole number from 2 to 65536, got \"wide\""},
      {with("hidden_size", -4), "hidden_size: expected a whole number from 2 to 65536, got -4"},
      {with("hidden_size", 24.5), "hidden_size: expected a whole number from 2 to 65536, got 24.5"},
      {with("num_hidden_layers", std::uint64_t{1} << 60), "num_hidden_layers: expected a whole number from 1 to 1024"},
      {with("num_attention_heads", 5), "width 24 is no multiple of heads 5"},
      {with("num_key_value_heads", 3), "kv_heads 3 does not divide heads 4"},
      {with("head_dim", 8), "head_dim: expected 6 (hidden_size / num_attention_heads), got 8"},
      {with("hidden_act", "gelu"), "hidden_act: expected \"silu\""},
      {with("attention_bias", true), "attention_bias: expected false"},
      {with("mlp_bias", true), "mlp_bias: expected false"},
      {with("torch_dtype", "bfloat16"), "torch_dtype: expected \"float32\""},
      {with("tie_word_embeddings", 1), "tie_word_embeddings: expected true or false, got 1"},
      {with("rms_norm_eps", 0), "rms_norm_eps: expected a number above 0, got 0"},
      {with("rope_theta", 500000.0), "rope_theta: 500000 differs from rope_parameters.rope_theta 10000"},
      {with("rope_scaling", {{"type", "linear"}}), "rope_scaling: expected null"},
      {with("rope_parameters", {{"rope_theta", 10000.0}, {"rope_type", "yarn"}}),
       "rope_parameters.rope_type: expected \"default\""},
      {with("rope_parameters", 3), "rope_parameters: expected an object, got 3"},
      {without({"vocab_size"}), "vocab_size: expected a whole number from 1 to 65536, got nothing"},
      {without({"rms_norm_eps"}), "rms_norm_eps: expected a number above 0, got nothing"},
      {without({"rope_theta", "rope_parameters"}), "rope_theta: expected a number above 0, got nothing"},
      {"[1]", "expected an object, got a list"},
      {"{\n  \"a\": 1,\n  \"b\" 2}", "line 3, column 7"},
      {"{\"rms_norm_eps\": 1e999}", "no double can hold"},
      {"", "line 1, column 1"},
      {std::string(2 << 20, ' '), "expected at most 1048576 bytes, got 2097152"},
  };
  for (const auto& [text, expected] : offenders)
    EXPECT_NE(refusal(text).find(expected), std::string::npos) << refusal(text) << "\ninstead of: " << expected;
}

TEST(HuggingFaceConfig, that_is_torn_or_flipped_or_nested_without_end_is_survived) {
  const std::string text = config_json(test::small_byte_model(false));
  for (std::size_t size = 0; size + 2 < text.size(); size += 5) EXPECT_NE(refusal(text.substr(0, size)), "accepted");
  for (std::size_t i = 0; i < text.size(); i += 3) {
    std::string flipped = text;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << (i % 8)));
    parse_config(flipped);
  }
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_EQ(refusal("{\"model_type\": " + deep + "}"),
            "model_type: expected \"llama\" (the only architecture here), got a list");
}

TEST(ByteVocabulary, gives_every_byte_its_own_text_in_the_known_alphabet) {
  const std::vector<std::string> texts = byte_vocabulary();
  ASSERT_EQ(texts.size(), 257U);
  EXPECT_EQ(std::set<std::string>(texts.begin(), texts.end()).size(), 257U);
  EXPECT_EQ(texts['A'], "A");
  EXPECT_EQ(texts[' '], "\u0120");
  EXPECT_EQ(texts['\n'], "\u010a");
  EXPECT_EQ(texts[0], "\u0100");
  EXPECT_EQ(texts[161], "\u00a1");
  EXPECT_EQ(texts[173], "\u0143");
  EXPECT_EQ(texts[255], "\u00ff");
  EXPECT_EQ(texts[separator_token], separator_text);
}

TEST(HuggingFaceTokenizer, maps_each_text_to_its_byte_and_merges_nothing) {
  const Json json = Json::parse(tokenizer_json());
  const std::vector<std::string> texts = byte_vocabulary();
  for (std::size_t token = 0; token < texts.size(); ++token) EXPECT_EQ(json["model"]["vocab"][texts[token]], token);
  EXPECT_EQ(json["model"]["vocab"].size(), 257U);
  EXPECT_EQ(json["model"]["merges"], Json::array());
  ASSERT_EQ(json["added_tokens"].size(), 1U);
  EXPECT_EQ(json["added_tokens"][0]["id"], 256);
  EXPECT_EQ(json["added_tokens"][0]["special"], true);
}

TEST(HuggingFaceExport, is_a_folder_with_all_that_a_reader_wants) {
  for (const bool tied : {false, true}) {
    SCOPED_TRACE(tied);
    test::Stored stored(test::small_byte_model(tied));
    ASSERT_EQ(export_hugging_face(stored.disk, stored.path, "out/model/"), std::nullopt);
    std::vector<std::string> names;
    for (const DiskEntry& entry : stored.disk.list("out/model").value()) names.push_back(entry.name);
    EXPECT_EQ(names, (std::vector<std::string>{"config.json", "generation_config.json", "model.safetensors",
                                               "tokenizer.json", "tokenizer_config.json"}));
    expect_same(parsed(stored.disk.read("out/model/config.json").value()), test::small_byte_model(tied));

    const auto opened = TensorFiles::open(stored.disk, "out/model", "model");
    ASSERT_TRUE(std::holds_alternative<TensorFiles>(opened));
    const TensorFiles& files = std::get<TensorFiles>(opened);
    EXPECT_EQ(files.tensors().size(), stored.model.arithmetic.parameters().size());
    EXPECT_EQ(files.tensors().contains("lm_head.weight"), !tied);
    const test::Floats expected = stored.parameter("model.layers.1.mlp.up_proj.weight");
    test::Floats values(expected.size());
    EXPECT_EQ(files.read(stored.disk, "model.layers.1.mlp.up_proj.weight", values), std::nullopt);
    EXPECT_EQ(values, expected);
    // Older transformers refuse a file without it.
    EXPECT_NE(stored.disk.read("out/model/model.safetensors").value().find(R"({"format":"pt"})"), std::string::npos);
  }
}

TEST(Export, writes_over_nothing) {
  test::Stored stored(test::small_byte_model(false));
  const auto before = stored.disk.files();
  const auto refused = [&](const CheckpointStatus& status, const std::string& why) {
    ASSERT_TRUE(status);
    EXPECT_NE(status->find(why), std::string::npos) << *status;
  };
  refused(export_hugging_face(stored.disk, stored.path, stored.path), "something is there already");
  refused(export_hugging_face(stored.disk, stored.path, "all"), "something is there already");
  refused(export_gguf(stored.disk, stored.path, stored.path + "/config.json"), "something is there already");
  refused(export_gguf(stored.disk, stored.path, ""), "names nothing new");
  refused(export_gguf(stored.disk, stored.path, "/"), "names nothing new");
  EXPECT_EQ(stored.disk.files(), before);

  ASSERT_FALSE(stored.disk.write_whole("all/out.partial", "mine"));
  refused(export_gguf(stored.disk, stored.path, "all/out"), "left by an export that was cut off");
  refused(export_hugging_face(stored.disk, stored.path, "all/out"), "left by an export that was cut off");
  EXPECT_EQ(stored.disk.read("all/out.partial").value(), "mine");
}

TEST(Export, refuses_a_checkpoint_with_any_byte_flipped_or_cut_off) {
  test::Stored stored(test::small_byte_model(true));
  for (const DiskEntry& entry : stored.disk.list(stored.path).value()) {
    SCOPED_TRACE(entry.name);
    const std::string file = stored.path + "/" + entry.name, sound = stored.disk.read(file).value();
    for (const bool torn : {false, true}) {
      std::string damaged = sound;
      if (torn) damaged.resize(damaged.size() / 2);
      if (!torn) damaged[damaged.size() / 2] ^= 1;
      ASSERT_FALSE(stored.disk.write_whole(file, damaged));
      const auto folder = export_hugging_face(stored.disk, stored.path, "out"),
                 gguf = export_gguf(stored.disk, stored.path, "out.gguf");
      ASSERT_TRUE(folder && gguf);
      EXPECT_NE(gguf->find("cannot export '" + stored.path + "'"), std::string::npos) << *gguf;
    }
    ASSERT_FALSE(stored.disk.write_whole(file, sound));
  }
  EXPECT_FALSE(stored.disk.list("out"));
  EXPECT_EQ(export_gguf(stored.disk, stored.path, "out.gguf"), std::nullopt);
  EXPECT_TRUE(export_gguf(stored.disk, "all", "other.gguf"));
}

TEST(Export, refuses_what_no_tokenizer_fits) {
  test::Stored stored(test::small_spec());
  for (const auto& status :
       {export_hugging_face(stored.disk, stored.path, "out"), export_gguf(stored.disk, stored.path, "out.gguf")}) {
    ASSERT_TRUE(status);
    EXPECT_NE(status->find("its vocabulary has 37 tokens"), std::string::npos) << *status;
  }
}

TEST(Export, refuses_digests) {
  test::Stored stored(test::small_byte_model(false), true);
  for (const auto& status :
       {export_hugging_face(stored.disk, stored.path, "out"), export_gguf(stored.disk, stored.path, "out.gguf")}) {
    ASSERT_TRUE(status);
    EXPECT_NE(status->find("its job ran on emulated devices"), std::string::npos) << *status;
  }
}

TEST(Export, is_there_as_a_whole_or_not_at_all_wherever_the_disk_fails) {
  const auto exports = {+[](Disk& disk, const std::string& from) { return export_hugging_face(disk, from, "o/x"); },
                        +[](Disk& disk, const std::string& from) { return export_gguf(disk, from, "o/x"); }};
  for (const auto& run : exports) {
    test::Stored stored(test::small_byte_model(true));
    ASSERT_EQ(run(stored.disk, stored.path), std::nullopt);
    const auto complete = stored.disk.files();
    std::uint64_t operations = 1;
    for (std::uint64_t n = 1; n <= operations; ++n)
      for (const auto kind : {DiskFault::Kind::no_space, DiskFault::Kind::crash}) {
        SCOPED_TRACE(n);
        ASSERT_FALSE(stored.disk.remove("o"));
        FaultyDisk disk(stored.disk, DiskFault{kind, n});
        const CheckpointStatus status = run(disk, stored.path);
        operations = std::max(operations, status ? n + 1 : n);
        if (!status) continue;
        const bool there = !stored.disk.glob("o/x").empty() || stored.disk.list("o/x");
        if (there) {
          EXPECT_EQ(stored.disk.files(), complete);
        } else if (kind == DiskFault::Kind::no_space) {
          EXPECT_TRUE(!stored.disk.list("o") || stored.disk.list("o").value().empty());
        }
      }
    EXPECT_GT(operations, 6U);
  }
}

}  // namespace
}  // namespace stagecraft
