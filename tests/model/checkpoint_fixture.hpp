// A small job's state to save and load: a tied or untied Llama of two blocks whose values tell where they belong.
// Thread promise: one thread.
#pragma once

#include <algorithm>
#include <bit>
#include <string>

#include <gtest/gtest.h>

#include "model/checkpoint/checkpoint.hpp"
#include "model/llama.hpp"
#include "model/reduction.hpp"
#include "planning/random.hpp"

namespace stagecraft::test {

inline ModelSpec tiny_spec(bool tied = false) {
  ModelSpec spec;
  spec.layers = 2;
  spec.width = 8;
  spec.heads = 2;
  spec.kv_heads = 1;
  spec.hidden = 16;
  spec.context = 16;
  spec.vocabulary = 19;
  spec.tied_embeddings = tied;
  return spec;
}

/// Parameters and moments of every group, and the checkpoint that they make.
struct SavedJob {
  explicit SavedJob(std::uint32_t iteration = 50, std::uint64_t salt = 1, const ModelSpec& spec = tiny_spec())
      : arithmetic(spec, 7, Isa::scalar, 32) {
    info.job = "tiny";
    info.identity.model = spec;
    info.identity.micro_batches = 8;
    info.identity.logical_shards = 4;
    info.identity.micro_batch_tokens = 64;
    info.identity.corpus_sha256 = std::string(64, 'a');
    info.iteration = iteration;
    info.steps = iteration - 1;
    info.tokens = 1000ULL * iteration;
    info.layout = "4 stages x 1 chunks x 2 replicas";
    for (const ParameterInfo& p : arithmetic.parameters()) {
      GroupValues& group = state[p.group];
      for (auto* values : {&group.parameters, &group.first_moments, &group.second_moments})
        for (std::size_t i = 0; i < p.elements(); ++i)
          values->push_back(static_cast<float>(static_cast<std::int64_t>(keyed(salt, iteration, draws++))));
    }
  }

  /// As `replicas` replicas hold it: each has its owned blocks of the moments.
  StateView view(std::uint32_t replicas = 1) const {
    StateView all;
    for (const auto& [group, values] : state) {
      GroupFragments& fragments = all[group];
      fragments.parameters.push_back({0, values.parameters});
      for (std::uint32_t r = replicas; r-- > 0;)
        each_owned_block(arithmetic, group, {r}, replicas, [&, &v = values](std::size_t first, std::size_t count) {
          fragments.first_moments.push_back({first, std::span(v.first_moments).subspan(first, count)});
          fragments.second_moments.push_back({first, std::span(v.second_moments).subspan(first, count)});
        });
    }
    return all;
  }

  CheckpointStatus save(Disk& disk, const std::string& folder, std::uint32_t keep = 3,
                        std::uint32_t replicas = 1) const {
    return write_checkpoint(disk, folder, info, arithmetic.parameters(), view(replicas), keep);
  }
  std::variant<LoadedCheckpoint, std::string> load(Disk& disk, const std::string& path) const {
    return load_checkpoint(disk, path, arithmetic.parameters());
  }

  LlamaArithmetic arithmetic;
  CheckpointInfo info;
  std::map<GroupId, GroupValues> state;
  std::uint64_t draws = 0;
};

template <class T>
std::string error_of(const std::variant<T, std::string>& result) {
  return std::holds_alternative<std::string>(result) ? std::get<std::string>(result) : "no error";
}
template <class T>
T value_of(std::variant<T, std::string> result) {
  EXPECT_TRUE(std::holds_alternative<T>(result)) << error_of(result);
  return std::get<T>(std::move(result));
}
inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// What a folder holds, each name with a space after it.
inline std::string names_in(Disk& disk, const std::string& folder) {
  const auto entries = disk.list(folder);
  if (!entries) return entries.error().text();
  std::string names;
  for (const DiskEntry& entry : entries.value()) names += entry.name + " ";
  return names;
}

inline bool same_values(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](float x, float y) {
           return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
         });
}

inline bool same_state(const std::map<GroupId, GroupValues>& a, const std::map<GroupId, GroupValues>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](const auto& x, const auto& y) {
           return x.first == y.first && same_values(x.second.parameters, y.second.parameters) &&
                  same_values(x.second.first_moments, y.second.first_moments) &&
                  same_values(x.second.second_moments, y.second.second_moments);
         });
}

}  // namespace stagecraft::test
