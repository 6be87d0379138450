// What the export checks in Python need of us, as one small program:
//
//   export_dump make FOLDER [tied]            a checkpoint of a small model with lively weights; prints its path
//   export_dump predict CHECKPOINT TOKENS...  our log-probabilities of every next token, as JSON [position][token]
//   export_dump hugging-face CHECKPOINT FOLDER
//   export_dump gguf CHECKPOINT FILE
//
// One thread; exits 0, or 1 with the reason on the standard error.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.hpp"
#include "model/checkpoint/gguf.hpp"
#include "model/checkpoint/hugging_face.hpp"
#include "model/llama.hpp"
#include "tests/model/llama_fixture.hpp"
#include "transport/real_disk.hpp"

namespace stagecraft {
namespace {

using Words = std::vector<std::string>;

// Grouped queries, a context and numbers unlike any default, so that nothing is right by chance.
ModelSpec small_byte_model(bool tied) {
  ModelSpec model;
  model.layers = 2;
  model.width = 48;
  model.heads = 4;
  model.kv_heads = 2;
  model.hidden = 80;
  model.context = 96;
  model.vocabulary = 257;
  model.tied_embeddings = tied;
  model.rope_theta = 5000.5;
  model.norm_epsilon = 3e-5;
  return model;
}

void succeed(const CheckpointStatus& status) {
  if (status) throw std::runtime_error(*status);
}

std::string make(Disk& disk, const std::string& folder, bool tied) {
  CheckpointInfo info;
  info.job = "export-check";
  info.identity.model = small_byte_model(tied);
  info.iteration = 3;
  info.steps = 3;
  info.layout = "made by hand";
  test::Model model(info.identity.model);
  test::make_lively(model);

  StateView state;
  const test::Floats zeros(model.weights[0].size() + model.weights[1].size(), 0.0F);
  for (std::uint32_t g = 0; g < model.arithmetic.groups(); ++g) {
    if (tied && GroupId{g} == model.arithmetic.head_group()) continue;
    const std::span<const float> values = model.weights[g].span();
    const std::vector<Fragment> nothing{{0, std::span(zeros).first(values.size())}};
    state[{g}] = {{{0, values}}, nothing, nothing};
  }
  succeed(write_checkpoint(disk, folder, info, model.arithmetic.parameters(), state, 1));
  return list_checkpoints(disk, folder).at(0).path;
}

ModelSpec model_of(Disk& disk, const std::string& checkpoint) {
  const auto manifest = read_manifest(disk, checkpoint);
  if (const auto* why = std::get_if<std::string>(&manifest)) throw std::runtime_error(*why);
  return std::get<CheckpointInfo>(manifest).identity.model;
}

// The head gives losses, not logits: the loss of a row that is to predict `target` is -log p(target).
double log_probability(const test::Model& model, const Tensor& row, Token target) {
  test::Batch one({1}, 257);
  one.targets = {target};
  Saved saved;
  LossSum loss;
  const UnitId head = model.arithmetic.head_unit();
  model.arithmetic.forward(head, model.of(model.weights, head, true), row, one.view(), saved, loss, *model.arena);
  return -loss.loss.value();
}

std::string predict(Disk& disk, const std::string& checkpoint, const std::vector<Token>& tokens) {
  const ModelSpec spec = model_of(disk, checkpoint);
  test::Model model(spec);
  const auto loaded = load_checkpoint(disk, checkpoint, model.arithmetic.parameters());
  if (const auto* why = std::get_if<std::string>(&loaded)) throw std::runtime_error(*why);
  for (const auto& [group, values] : std::get<LoadedCheckpoint>(loaded).state)
    std::copy(values.parameters.begin(), values.parameters.end(), model.weights[group.value].data());

  test::Batch batch({static_cast<std::uint32_t>(tokens.size())}, spec.vocabulary);
  batch.inputs = tokens;
  model.forward(batch);
  const Tensor& last = model.outputs[model.arithmetic.head_unit().value - 1];
  std::string rows;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    Tensor row(*model.arena, spec.width);
    std::copy_n(last.data() + t * spec.width, spec.width, row.data());
    std::string line;
    for (std::uint32_t target = 0; target < spec.vocabulary; ++target)
      line += fmt::format("{}{}", target == 0 ? "" : ", ", log_probability(model, row, static_cast<Token>(target)));
    rows += fmt::format("{}[{}]", t == 0 ? "" : ",\n", line);
  }
  return "[" + rows + "]";
}

std::vector<Token> tokens_of(const Words& words) {
  std::vector<Token> tokens;
  for (const std::string& word : words) {
    Token token = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), token);
    if (error != std::errc() || end != word.data() + word.size()) throw std::runtime_error(word + " is no token");
    tokens.push_back(token);
  }
  return tokens;
}

void run(const Words& words) {
  RealDisk disk;
  const std::string verb = words.empty() ? "" : words[0];
  if (verb == "make" && words.size() >= 2) {
    fmt::print("{}\n", make(disk, words[1], words.size() > 2 && words[2] == "tied"));
  } else if (verb == "predict" && words.size() > 2) {
    fmt::print("{}\n", predict(disk, words[1], tokens_of({words.begin() + 2, words.end()})));
  } else if (verb == "hugging-face" && words.size() == 3) {
    succeed(export_hugging_face(disk, words[1], words[2]));
  } else if (verb == "gguf" && words.size() == 3) {
    succeed(export_gguf(disk, words[1], words[2]));
  } else {
    throw std::runtime_error("expected make, predict, hugging-face or gguf, and their arguments");
  }
}

}  // namespace
}  // namespace stagecraft

int main(int argc, char** argv) {
  try {
    stagecraft::run({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "export_dump: {}\n", error.what());
    return 1;
  }
}
