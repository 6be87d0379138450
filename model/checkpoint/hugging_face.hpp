// The model as Hugging Face's transformers reads it: config.json both ways, the tokenizer of our byte vocabulary, and a
// folder that `AutoModelForCausalLM.from_pretrained` loads.
//
// config.json serves both generations of readers: version 4 takes `rope_theta`, `rope_scaling` and `torch_dtype`,
// version 5 `rope_parameters` and `dtype`; each is written, so that neither falls back to a default of its own.
//
// Who knocks: the checkpoint writer and reader (config.json), `stagecraft checkpoint export`. What it never does: throw
// at bad input, print, or write over anything.
// Thread promise: any thread; the export blocks on the disk.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "config/topology.hpp"
#include "model/checkpoint/checkpoint.hpp"
#include "transport/disk.hpp"

namespace stagecraft {

/// config.json of a model whose defaults are filled in (ModelSpec::hidden above 0). Numbers read back exactly.
std::string config_json(const ModelSpec& model);
/// What `config_json` wrote, or any Llama with the same architecture and every key that we need, in either spelling.
/// Else one sentence: the place in the text or the key, what was expected, what is there.
std::variant<ModelSpec, std::string> parse_config(std::string_view text);

/// Sampling values are left out on purpose: they are the reader's.
std::string generation_config_json();
/// A byte-pair tokenizer without any pair: every byte is a token, 256 the separator.
std::string tokenizer_json();
std::string tokenizer_config_json(const ModelSpec& model);

/// Verifies the checkpoint, then writes `folder`: config.json, generation_config.json, model.safetensors,
/// tokenizer.json and tokenizer_config.json. `folder` must not be there yet. All or nothing: everything goes into
/// `folder.partial`, then one rename.
CheckpointStatus export_hugging_face(Disk& disk, const std::string& checkpoint, const std::string& folder);

}  // namespace stagecraft
