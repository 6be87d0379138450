// A checkpoint of a small byte model on a disk, for the tests of the exports. Thread promise: one thread.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "model/checkpoint/checkpoint.hpp"
#include "tests/model/llama_fixture.hpp"
#include "transport/memory_disk.hpp"

namespace stagecraft::test {

inline ModelSpec small_byte_model(bool tied) {
  ModelSpec spec = small_spec();
  spec.vocabulary = 257;
  spec.context = 32;
  spec.tied_embeddings = tied;
  return spec;
}

/// The checkpoint, and what is in it.
struct Stored {
  explicit Stored(const ModelSpec& spec, bool emulated = false) : model(spec) {
    make_lively(model);
    CheckpointInfo info;
    info.job = "small";
    info.identity.model = spec;
    info.identity.emulated = emulated;
    info.iteration = 1;
    info.steps = 1;
    info.layout = "1 stages x 1 chunks x 1 replicas";
    StateView state;
    for (std::uint32_t g = 0; g < model.arithmetic.groups(); ++g) {
      if (spec.tied_embeddings && GroupId{g} == model.arithmetic.head_group()) continue;
      const Fragment all{0, model.weights[g].span()};
      state[{g}] = {{all}, {all}, {all}};
    }
    const auto failed = write_checkpoint(disk, "all/small", info, model.arithmetic.parameters(), state, 1);
    EXPECT_EQ(failed, std::nullopt);
    path = list_checkpoints(disk, "all/small").at(0).path;
  }

  Floats parameter(const std::string& name) const {
    for (const ParameterInfo& p : model.arithmetic.parameters()) {
      const float* begin = model.weights[p.group.value].data() + p.offset;
      if (p.name == name) return {begin, begin + p.elements()};
    }
    ADD_FAILURE() << "no parameter " << name;
    return {};
  }

  Model model;
  MemoryDisk disk;
  std::string path;
};

}  // namespace stagecraft::test
