#include "model/checkpoint/gguf.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <span>
#include <string_view>

#include "model/checkpoint/byte_vocabulary.hpp"
#include "model/checkpoint/export_steps.hpp"
#include "model/checkpoint/tensor_files.hpp"
#include "model/corpus.hpp"

namespace stagecraft {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor data are copied as they are");

constexpr std::uint32_t gguf_version = 3;
// How the format numbers what it stores.
enum class ValueType : std::uint32_t { u32 = 4, i32 = 5, f32 = 6, boolean = 7, string = 8, array = 9 };
constexpr std::uint32_t tensor_type_f32 = 0, file_type_all_f32 = 0;
enum class TokenType : std::int32_t { normal = 1, control = 3 };

std::size_t aligned(std::size_t bytes) { return (bytes + gguf_alignment - 1) / gguf_alignment * gguf_alignment; }

// Appends numbers, strings and key-value pairs in the format's own form.
class HeaderText {
 public:
  void raw(std::string_view bytes) { text_ += bytes; }
  template <class T>
  void number(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void string(std::string_view value) {
    number<std::uint64_t>(value.size());
    raw(value);
  }

  void key(std::string_view name, std::uint32_t value) { begin(name, ValueType::u32), number(value); }
  void key(std::string_view name, float value) { begin(name, ValueType::f32), number(value); }
  void key(std::string_view name, std::string_view value) { begin(name, ValueType::string), string(value); }
  void truth(std::string_view name, bool value) { begin(name, ValueType::boolean), number<std::uint8_t>(value); }
  void list(std::string_view name, const std::vector<std::string>& values) {
    begin_list(name, ValueType::string, values.size());
    for (const std::string& value : values) string(value);
  }
  void list(std::string_view name, const std::vector<TokenType>& values) {
    begin_list(name, ValueType::i32, values.size());
    for (const TokenType value : values) number(static_cast<std::int32_t>(value));
  }

  std::uint64_t keys() const { return keys_; }
  const std::string& text() const { return text_; }

 private:
  void begin(std::string_view name, ValueType type) {
    ++keys_;
    string(name);
    number(static_cast<std::uint32_t>(type));
  }
  void begin_list(std::string_view name, ValueType type, std::size_t size) {
    begin(name, ValueType::array);
    number(static_cast<std::uint32_t>(type));
    number<std::uint64_t>(size);
  }

  std::string text_;
  std::uint64_t keys_ = 0;
};

void write_model_keys(HeaderText& out, const ModelSpec& model, const std::string& name) {
  out.key("general.architecture", std::string_view("llama"));
  out.key("general.name", std::string_view(name));
  out.key("general.file_type", file_type_all_f32);
  out.key("general.alignment", static_cast<std::uint32_t>(gguf_alignment));
  out.key("llama.vocab_size", model.vocabulary);
  out.key("llama.context_length", model.context);
  out.key("llama.embedding_length", model.width);
  out.key("llama.block_count", model.layers);
  out.key("llama.feed_forward_length", model.hidden);
  out.key("llama.attention.head_count", model.heads);
  out.key("llama.attention.head_count_kv", model.kv_heads);
  out.key("llama.attention.layer_norm_rms_epsilon", static_cast<float>(model.norm_epsilon));
  out.key("llama.rope.dimension_count", model.width / model.heads);
  out.key("llama.rope.freq_base", static_cast<float>(model.rope_theta));
}

// Without merges every byte stays a token, however the text is split before.
void write_tokenizer_keys(HeaderText& out) {
  const std::vector<std::string> texts = byte_vocabulary();
  std::vector<TokenType> types(texts.size(), TokenType::normal);
  types[separator_token] = TokenType::control;
  out.key("tokenizer.ggml.model", std::string_view("gpt2"));
  out.key("tokenizer.ggml.pre", std::string_view("gpt-2"));
  out.list("tokenizer.ggml.tokens", texts);
  out.list("tokenizer.ggml.token_type", types);
  out.list("tokenizer.ggml.merges", std::vector<std::string>{});
  out.key("tokenizer.ggml.bos_token_id", std::uint32_t{separator_token});
  out.key("tokenizer.ggml.eos_token_id", std::uint32_t{separator_token});
  out.truth("tokenizer.ggml.add_bos_token", false);
  out.truth("tokenizer.ggml.add_eos_token", false);
  out.truth("tokenizer.ggml.add_space_prefix", false);
}

// What the file needs is in the checkpoint, in the expected form.
CheckpointStatus check_sources(const TensorFiles& files, const std::string& checkpoint,
                               const std::vector<GgufTensor>& tensors) {
  for (const GgufTensor& tensor : tensors) {
    const std::vector<std::uint64_t> shape(tensor.shape.begin(), tensor.shape.end());
    const auto found = files.tensors().find(tensor.source);
    if (found == files.tensors().end())
      return fmt::format("cannot export '{}': it has no tensor {}; export another checkpoint", checkpoint,
                         tensor.source);
    const TensorEntry& entry = found->second.entry;
    if (entry.dtype != "F32" || entry.shape != shape)
      return fmt::format("cannot export '{}': {} is {} {}, expected F32 {}; export another checkpoint", checkpoint,
                         tensor.source, entry.dtype, describe_shape(entry.shape), describe_shape(shape));
  }
  return std::nullopt;
}

std::string_view bytes_of(std::span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

// Writes a tensor head by head, the rows of each in the interleaved order.
CheckpointStatus write_interleaved(std::span<const float> values, const GgufTensor& tensor, FileWriter& out) {
  const std::size_t columns = tensor.shape.back(), head = tensor.head_size * columns;
  std::vector<float> turned(head);
  for (std::size_t first = 0; first < values.size(); first += head) {
    for (std::size_t row = 0; row < tensor.head_size; ++row)
      std::copy_n(values.data() + first + row * columns, columns,
                  turned.data() + interleaved_row(row, tensor.head_size) * columns);
    if (auto status = told(out.write(bytes_of(turned)))) return status;
  }
  return std::nullopt;
}

CheckpointStatus write_tensor(Disk& disk, const TensorFiles& files, const GgufTensor& tensor, FileWriter& out) {
  const std::size_t bytes = tensor.elements() * sizeof(float);
  CheckpointStatus status;
  if (tensor.head_size == 0) {
    status = files.stream(disk, tensor.source, [&](std::string_view piece) { return told(out.write(piece)); });
  } else {
    std::vector<float> values(tensor.elements());
    status = files.read(disk, tensor.source, values);
    if (!status) status = write_interleaved(values, tensor, out);
  }
  if (status) return status;
  return told(out.write(std::string(aligned(bytes) - bytes, '\0')));
}

}  // namespace

std::size_t GgufTensor::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}

std::vector<GgufTensor> gguf_tensors(const ModelSpec& model) {
  std::vector<GgufTensor> tensors;
  std::uint64_t offset = 0;
  const auto put = [&](std::string name, std::string source, std::vector<std::size_t> shape, std::size_t head_size) {
    tensors.push_back({std::move(name), std::move(source), std::move(shape), head_size, offset});
    offset += aligned(tensors.back().elements() * sizeof(float));
  };
  const std::size_t width = model.width, hidden = model.hidden, head = model.width / model.heads;
  put("token_embd.weight", "model.embed_tokens.weight", {model.vocabulary, width}, 0);
  for (std::uint32_t layer = 0; layer < model.layers; ++layer) {
    const auto put_block = [&](const char* name, const char* source, std::vector<std::size_t> shape,
                               std::size_t head_size = 0) {
      put(fmt::format("blk.{}.{}.weight", layer, name), fmt::format("model.layers.{}.{}.weight", layer, source),
          std::move(shape), head_size);
    };
    put_block("attn_norm", "input_layernorm", {width});
    put_block("attn_q", "self_attn.q_proj", {width, width}, head);
    put_block("attn_k", "self_attn.k_proj", {model.kv_heads * head, width}, head);
    put_block("attn_v", "self_attn.v_proj", {model.kv_heads * head, width});
    put_block("attn_output", "self_attn.o_proj", {width, width});
    put_block("ffn_norm", "post_attention_layernorm", {width});
    put_block("ffn_gate", "mlp.gate_proj", {hidden, width});
    put_block("ffn_up", "mlp.up_proj", {hidden, width});
    put_block("ffn_down", "mlp.down_proj", {width, hidden});
  }
  put("output_norm.weight", "model.norm.weight", {width}, 0);
  if (!model.tied_embeddings) put("output.weight", "lm_head.weight", {model.vocabulary, width}, 0);
  return tensors;
}

std::size_t interleaved_row(std::size_t row, std::size_t head_size) {
  const std::size_t half = head_size / 2;
  return row < half ? 2 * row : 2 * (row - half) + 1;
}

std::string gguf_header(const ModelSpec& model, const std::string& name, const std::vector<GgufTensor>& tensors) {
  HeaderText keys;
  write_model_keys(keys, model, name);
  write_tokenizer_keys(keys);

  HeaderText out;
  out.raw("GGUF");
  out.number(gguf_version);
  out.number<std::uint64_t>(tensors.size());
  out.number(keys.keys());
  out.raw(keys.text());
  for (const GgufTensor& tensor : tensors) {
    out.string(tensor.name);
    out.number(static_cast<std::uint32_t>(tensor.shape.size()));
    for (std::size_t i = tensor.shape.size(); i-- > 0;) out.number<std::uint64_t>(tensor.shape[i]);
    out.number(tensor_type_f32);
    out.number(tensor.offset);
  }
  std::string text = out.text();
  text.resize(aligned(text.size()), '\0');
  return text;
}

CheckpointStatus export_gguf(Disk& disk, const std::string& checkpoint, const std::string& file) {
  const auto manifest = exportable_checkpoint(disk, checkpoint);
  if (const auto* why = std::get_if<std::string>(&manifest)) return *why;
  const CheckpointInfo& info = std::get<CheckpointInfo>(manifest);
  const std::vector<GgufTensor> tensors = gguf_tensors(info.identity.model);
  const auto opened = TensorFiles::open(disk, checkpoint, "model");
  if (const auto* why = std::get_if<std::string>(&opened)) return *why;
  const TensorFiles& files = std::get<TensorFiles>(opened);
  if (auto status = check_sources(files, checkpoint, tensors)) return status;

  return appear_at(disk, file, [&](const std::string& partial) -> CheckpointStatus {
    const auto out = disk.create(partial);
    if (!out) return out.error().text();
    FileWriter& writer = *out.value();
    if (auto status = told(writer.write(gguf_header(info.identity.model, info.job, tensors)))) return status;
    for (const GgufTensor& tensor : tensors)
      if (auto status = write_tensor(disk, files, tensor, writer)) return status;
    return told(writer.finish());
  });
}

}  // namespace stagecraft
