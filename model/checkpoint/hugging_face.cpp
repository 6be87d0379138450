#include "model/checkpoint/hugging_face.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "model/checkpoint/byte_vocabulary.hpp"
#include "model/checkpoint/export_steps.hpp"
#include "model/checkpoint/tensor_files.hpp"
#include "model/corpus.hpp"
#include "model/layers/shape.hpp"

namespace stagecraft {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_config_bytes = 1 << 20;
constexpr double initializer_range = 0.02;

std::string written(const Json& json) { return json.dump(2) + "\n"; }

// A value as an error shows it: short, and printable whatever it is. What is nested may be nested without end.
std::string shown(const Json& value) {
  if (value.is_structured()) return value.is_object() ? "an object" : "a list";
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

// Reads keys of one object; keeps the first complaint.
class Keys {
 public:
  explicit Keys(const Json& object, std::string prefix = "") : object_(object), prefix_(std::move(prefix)) {}

  const std::optional<std::string>& complaint() const { return complaint_; }
  void complain(const std::string& key, const std::string& what) {
    if (!complaint_) complaint_ = fmt::format("{}{}: {}", prefix_, key, what);
  }

  // The complaint of a nested object, which knows its prefix.
  void take_complaint(const Keys& nested) {
    if (!complaint_) complaint_ = nested.complaint_;
  }

  // Absent and null are one thing, as they are for transformers.
  const Json* find(const std::string& key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  std::uint32_t whole(const std::string& key, std::uint32_t low, std::uint32_t high) {
    const Json* value = find(key);
    if (value != nullptr && value->is_number_unsigned()) {
      const auto number = value->get<std::uint64_t>();
      if (number >= low && number <= high) return static_cast<std::uint32_t>(number);
    }
    complain(key, fmt::format("expected a whole number from {} to {}, {}", low, high, got(value)));
    return low;
  }
  // Above 0; empty with a complaint when it is no such number, without one when it is not there.
  std::optional<double> number(const std::string& key) {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (value->is_number()) {
      const auto number = value->get<double>();
      if (std::isfinite(number) && number > 0) return number;
    }
    complain(key, "expected a number above 0, " + got(value));
    return std::nullopt;
  }
  bool truth(const std::string& key) {
    const Json* value = find(key);
    if (value != nullptr && value->is_boolean()) return value->get<bool>();
    complain(key, "expected true or false, " + got(value));
    return false;
  }
  // `why` says what our model has; `needed`: being absent is wrong too.
  void fixed(const std::string& key, const Json& expected, bool needed, std::string_view why) {
    const Json* value = find(key);
    if (value == nullptr ? !needed : *value == expected) return;
    complain(key, fmt::format("expected {} ({}), {}", shown(expected), why, got(value)));
  }

 private:
  static std::string got(const Json* value) { return value == nullptr ? "got nothing" : "got " + shown(*value); }

  const Json& object_;
  std::string prefix_;
  std::optional<std::string> complaint_;
};

// rope_theta of version 4, rope_parameters.rope_theta of version 5; when both are there they must agree.
double read_rope_theta(Keys& keys) {
  const std::optional<double> old_spelling = keys.number("rope_theta");
  std::optional<double> new_spelling;
  if (const Json* parameters = keys.find("rope_parameters")) {
    if (!parameters->is_object()) {
      keys.complain("rope_parameters", "expected an object, got " + shown(*parameters));
      return 1;
    }
    Keys inner(*parameters, "rope_parameters.");
    new_spelling = inner.number("rope_theta");
    inner.fixed("rope_type", "default", false, "our rotary positions are not scaled");
    keys.take_complaint(inner);
  }
  if (const Json* scaling = keys.find("rope_scaling"))
    keys.complain("rope_scaling", "expected null (our rotary positions are not scaled), got " + shown(*scaling));
  if (!old_spelling && !new_spelling) keys.complain("rope_theta", "expected a number above 0, got nothing");
  if (old_spelling && new_spelling && *old_spelling != *new_spelling)
    keys.complain("rope_theta",
                  fmt::format("{} differs from rope_parameters.rope_theta {}", *old_spelling, *new_spelling));
  return old_spelling.value_or(new_spelling.value_or(1));
}

void check_architecture(Keys& keys) {
  keys.fixed("model_type", "llama", true, "the only architecture here");
  keys.fixed("hidden_act", "silu", false, "the feed-forward layer is SwiGLU");
  keys.fixed("attention_bias", false, false, "linear layers have no biases");
  keys.fixed("mlp_bias", false, false, "linear layers have no biases");
  for (const char* key : {"torch_dtype", "dtype"}) keys.fixed(key, "float32", false, "parameters are fp32");
}

// Line and column, from 1, of a byte counted from 1.
std::string place_of(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, byte == 0 ? 0 : byte - 1);
  std::size_t line = 1, column = 1;
  for (const char c : before) c == '\n' ? (++line, column = 1) : ++column;
  return fmt::format("line {}, column {}", line, column);
}

}  // namespace

std::string config_json(const ModelSpec& model) {
  Json j;
  j["architectures"] = Json::array({"LlamaForCausalLM"});
  j["model_type"] = "llama";
  j["attention_bias"] = false;
  j["attention_dropout"] = 0.0;
  j["bos_token_id"] = separator_token;
  j["dtype"] = "float32";
  j["eos_token_id"] = separator_token;
  j["head_dim"] = model.width / model.heads;
  j["hidden_act"] = "silu";
  j["hidden_size"] = model.width;
  j["initializer_range"] = initializer_range;
  j["intermediate_size"] = model.hidden;
  j["max_position_embeddings"] = model.context;
  j["mlp_bias"] = false;
  j["num_attention_heads"] = model.heads;
  j["num_hidden_layers"] = model.layers;
  j["num_key_value_heads"] = model.kv_heads;
  // None: the row of a padding token gets no gradient in transformers, and the separator must go on learning.
  j["pad_token_id"] = nullptr;
  j["pretraining_tp"] = 1;
  j["rms_norm_eps"] = model.norm_epsilon;
  j["rope_parameters"] = {{"rope_theta", model.rope_theta}, {"rope_type", "default"}};
  j["rope_scaling"] = nullptr;
  j["rope_theta"] = model.rope_theta;
  j["tie_word_embeddings"] = model.tied_embeddings;
  j["torch_dtype"] = "float32";
  j["use_cache"] = true;
  j["vocab_size"] = model.vocabulary;
  return written(j);
}

std::variant<ModelSpec, std::string> parse_config(std::string_view text) {
  if (text.size() > most_config_bytes)
    return fmt::format("expected at most {} bytes, got {}: no config.json is that long", most_config_bytes,
                       text.size());
  Json json;
  try {
    json = Json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    return fmt::format("{}: no JSON from here on; the file is torn or was edited", place_of(text, error.byte));
  } catch (const nlohmann::json::exception&) {  // a number beyond the range of double
    return std::string("it holds a number that no double can hold; the file was edited");
  }
  if (!json.is_object()) return fmt::format("expected an object, got {}", shown(json));

  Keys keys(json);
  check_architecture(keys);
  ModelSpec model;
  model.layers = keys.whole("num_hidden_layers", 1, 1024);
  model.width = keys.whole("hidden_size", 2, 65536);
  model.heads = keys.whole("num_attention_heads", 1, 1024);
  model.kv_heads =
      keys.find("num_key_value_heads") == nullptr ? model.heads : keys.whole("num_key_value_heads", 1, 1024);
  model.hidden = keys.whole("intermediate_size", 1, 262144);
  model.context = keys.whole("max_position_embeddings", 1, 1 << 20);
  model.vocabulary = keys.whole("vocab_size", 1, 1 << 16);
  model.tied_embeddings = keys.truth("tie_word_embeddings");
  model.rope_theta = read_rope_theta(keys);
  const std::optional<double> epsilon = keys.number("rms_norm_eps");
  if (!epsilon) keys.complain("rms_norm_eps", "expected a number above 0, got nothing");
  model.norm_epsilon = epsilon.value_or(1);
  if (!keys.complaint()) {
    try {
      LlamaShape::of(model);
    } catch (const std::invalid_argument& impossible) {
      return std::string(impossible.what());
    }
    keys.fixed("head_dim", model.width / model.heads, false, "hidden_size / num_attention_heads");
  }
  if (keys.complaint()) return *keys.complaint();
  return model;
}

std::string generation_config_json() {
  return written(
      {{"bos_token_id", separator_token}, {"eos_token_id", separator_token}, {"pad_token_id", separator_token}});
}

std::string tokenizer_json() {
  const Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  Json vocabulary = Json::object();
  const std::vector<std::string> texts = byte_vocabulary();
  for (std::size_t token = 0; token < texts.size(); ++token) vocabulary[texts[token]] = token;
  Json j;
  j["version"] = "1.0";
  j["truncation"] = nullptr;
  j["padding"] = nullptr;
  j["added_tokens"] = Json::array({{{"id", separator_token},
                                    {"content", separator_text},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false},
                                    {"special", true}}});
  j["normalizer"] = nullptr;
  j["pre_tokenizer"] = byte_level;
  j["post_processor"] = nullptr;
  j["decoder"] = byte_level;
  j["model"] = {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", nullptr},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", false},
                {"byte_fallback", false},
                {"ignore_merges", false},
                {"vocab", std::move(vocabulary)},
                {"merges", Json::array()}};
  return written(j);
}

std::string tokenizer_config_json(const ModelSpec& model) {
  return written({{"add_bos_token", false},
                  {"add_eos_token", false},
                  {"add_prefix_space", false},
                  {"bos_token", separator_text},
                  {"clean_up_tokenization_spaces", false},
                  {"eos_token", separator_text},
                  {"model_max_length", model.context},
                  {"tokenizer_class", "PreTrainedTokenizerFast"}});
}

CheckpointStatus export_hugging_face(Disk& disk, const std::string& checkpoint, const std::string& folder) {
  const auto manifest = exportable_checkpoint(disk, checkpoint);
  if (const auto* why = std::get_if<std::string>(&manifest)) return *why;
  const ModelSpec& model = std::get<CheckpointInfo>(manifest).identity.model;
  const auto opened = TensorFiles::open(disk, checkpoint, "model");
  if (const auto* why = std::get_if<std::string>(&opened)) return *why;
  const TensorFiles& tensors = std::get<TensorFiles>(opened);
  return appear_at(disk, folder, [&](const std::string& partial) -> CheckpointStatus {
    if (auto status = told(disk.make_directories(partial))) return status;
    const std::pair<std::string, std::string> texts[] = {{"config.json", config_json(model)},
                                                         {"generation_config.json", generation_config_json()},
                                                         {"tokenizer.json", tokenizer_json()},
                                                         {"tokenizer_config.json", tokenizer_config_json(model)}};
    for (const auto& [name, text] : texts)
      if (auto status = put_file(disk, fmt::format("{}/{}", partial, name), text)) return status;
    // By global names already, and without lm_head.weight when it is tied.
    for (const std::string& name : tensors.files())
      if (auto status = copy_file(disk, fmt::format("{}/{}", checkpoint, name), fmt::format("{}/{}", partial, name)))
        return status;
    return std::nullopt;
  });
}

}  // namespace stagecraft
