// What a peer in another language needs to do the same training: `<path>.json` (model, optimizer, batches, results)
// and `<path>.bin` (float32 tensors, little endian, row-major, at the byte offsets that the JSON names).
// tests/parity/case.py reads it. Thread promise: one thread.
#pragma once

#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "planning/random.hpp"
#include "tools/bench/one_stage.hpp"

namespace stagecraft::bench {

/// The batches of one iteration: micro-batch m holds documents of the lengths in `documents[m % documents.size()]`,
/// tokens and targets drawn from `seed`.
inline Batches draw_batches(std::uint64_t seed, Iteration iteration, std::uint32_t micro_batches,
                            const std::vector<std::vector<std::uint32_t>>& documents, std::uint32_t vocabulary) {
  Batches batches;
  for (std::uint32_t m = 0; m < micro_batches; ++m) {
    Packing packing;
    for (const std::uint32_t length : documents[m % documents.size()])
      packing.starts.push_back(packing.starts.back() + length);
    TokenBatch batch{iteration, MicroBatch{m}, std::make_shared<const Packing>(packing), {}, {}};
    const auto token = [&](std::uint64_t what, std::uint64_t t) {
      return static_cast<Token>(bounded(keyed(seed, iteration.value, m, what, t), vocabulary));
    };
    for (std::uint32_t t = 0; t < packing.tokens(); ++t) {
      batch.inputs.push_back(token(0, t));
      batch.targets.push_back(token(1, t));
    }
    batches.push_back(std::make_shared<const TokenBatch>(std::move(batch)));
  }
  return batches;
}

class PeerCase {
 public:
  /// Overwrites both files. Throws std::runtime_error when the second can't be written.
  explicit PeerCase(const std::string& path) : path_(path), data_(path + ".bin", std::ios::binary) {
    if (!data_) throw std::runtime_error("cannot write " + path + ".bin; is the folder there?");
  }

  void model(const ModelSpec& m) {
    json_["model"] = {{"layers", m.layers},         {"width", m.width},
                      {"heads", m.heads},           {"kv_heads", m.kv_heads},
                      {"hidden", m.hidden},         {"context", m.context},
                      {"vocabulary", m.vocabulary}, {"tied_embeddings", m.tied_embeddings},
                      {"rope_theta", m.rope_theta}, {"norm_epsilon", m.norm_epsilon}};
  }
  void optimizer(const OptimizerSpec& o, std::uint64_t total_steps) {
    static constexpr const char* schedules[] = {"constant", "cosine", "linear"};
    json_["optimizer"] = {{"learning_rate", o.learning_rate},
                          {"beta1", o.beta1},
                          {"beta2", o.beta2},
                          {"epsilon", o.epsilon},
                          {"weight_decay", o.weight_decay},
                          {"clip", o.clip},
                          {"schedule", schedules[static_cast<std::size_t>(o.schedule)]},
                          {"warmup_steps", o.warmup_steps},
                          {"final_fraction", o.final_fraction},
                          {"total_steps", total_steps}};
  }
  /// One more iteration's micro-batches.
  void iteration(const Batches& batches) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& b : batches)
      list.push_back({{"starts", b->packing->starts}, {"inputs", b->inputs}, {"targets", b->targets}});
    json_["iterations"].push_back(std::move(list));
  }
  void outcome(const StepOutcome& o) {
    json_["outcomes"].push_back({{"loss_sum", o.loss_sum}, {"tokens", o.tokens}, {"gradient_norm", o.gradient_norm}});
  }
  /// Every parameter, as `<kind>/<global name>`; `group` gives the values of a whole group.
  template <class OfGroup>
  void tensors(const std::string& kind, const Arithmetic& arithmetic, OfGroup group) {
    for (const ParameterInfo& p : arithmetic.parameters()) {
      const std::span<const float> values = group(p.group).span().subspan(p.offset, p.elements());
      json_["tensors"][kind + "/" + p.name] = {{"shape", p.shape}, {"offset", offset_}};
      data_.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size_bytes()));
      offset_ += values.size_bytes();
    }
  }
  /// Says why there is nothing to compare, and closes.
  void skip(const std::string& reason) {
    json_["skipped"] = reason;
    close();
  }
  /// Writes what is missing; throws std::runtime_error when the disk refuses.
  void close() {
    std::ofstream json(path_ + ".json");
    json << json_;
    json.close();
    data_.close();
    if (!json || !data_) throw std::runtime_error("cannot write all of " + path_ + ".json and .bin; is the disk full?");
  }

 private:
  std::string path_;
  std::ofstream data_;
  std::uint64_t offset_ = 0;
  nlohmann::json json_;
};

}  // namespace stagecraft::bench
