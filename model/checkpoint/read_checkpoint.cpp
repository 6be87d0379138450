#include "model/checkpoint/read_checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/checkpoint/checkpoint_folder.hpp"
#include "model/checkpoint/fields.hpp"

namespace stagecraft {
namespace {

constexpr std::array<std::string_view, 2> moments{"first_moment.", "second_moment."};

CheckpointStatus check_files(Disk& disk, const std::string& path, const Manifest& manifest) {
  for (const WrittenFile& file : manifest.files)
    if (auto why = check_file(disk, path + "/" + file.name, file)) return why;
  return std::nullopt;
}

// Files that the manifest does not vouch for can hold anything.
CheckpointStatus check_vouched(const std::string& path, const TensorFiles& tensors, const Manifest& manifest) {
  for (const std::string& name : tensors.files()) {
    const auto is_it = [&](const WrittenFile& file) { return file.name == name; };
    if (std::none_of(manifest.files.begin(), manifest.files.end(), is_it))
      return fmt::format("'{}/{}' is not in the manifest; remove it", path, name);
  }
  return std::nullopt;
}

// Every parameter has both of its moments, of its own shape, and nothing else is there.
CheckpointStatus check_moments(const std::string& path, const OpenCheckpoint& open) {
  const auto& model = open.model.tensors();
  const auto& optimizer = open.optimizer.tensors();
  for (const auto& [name, tensor] : model) {
    if (tensor.entry.dtype != "F32")
      return fmt::format("tensor '{}' of '{}' is {}, expected F32", name, path, tensor.entry.dtype);
    for (const std::string_view moment : moments) {
      const auto found = optimizer.find(std::string(moment) + name);
      if (found == optimizer.end()) return fmt::format("tensor '{}{}' is missing in '{}'", moment, name, path);
      const TensorEntry& entry = found->second.entry;
      if (entry.dtype != "F32" || entry.shape != tensor.entry.shape)
        return fmt::format("tensor '{}{}' of '{}' is {} {}, its parameter is F32 {}", moment, name, path, entry.dtype,
                           describe_shape(entry.shape), describe_shape(tensor.entry.shape));
    }
  }
  for (const auto& [name, tensor] : optimizer) {
    const auto belongs = [&name = name, &model](std::string_view moment) {
      return name.starts_with(moment) && model.contains(name.substr(moment.size()));
    };
    if (std::none_of(moments.begin(), moments.end(), belongs))
      return fmt::format("tensor '{}' of '{}' belongs to no parameter", name, path);
  }
  return std::nullopt;
}

// Is it the model that will take it?
CheckpointStatus check_parameters(const std::string& path, const TensorFiles& model,
                                  const std::vector<ParameterInfo>& parameters) {
  constexpr const char* advice = "take a checkpoint of the same model, or give the job the model it was saved with";
  const auto& tensors = model.tensors();
  std::map<std::string, bool> known;
  for (const ParameterInfo& p : parameters) {
    known[p.name] = true;
    const auto found = tensors.find(p.name);
    if (found == tensors.end())
      return fmt::format("tensor '{}' is missing in '{}', which holds {} tensors where this model has {}; {}", p.name,
                         path, tensors.size(), parameters.size(), advice);
    const std::vector<std::uint64_t> wanted(p.shape.begin(), p.shape.end());
    if (found->second.entry.shape != wanted)
      return fmt::format("tensor '{}' of '{}' has shape {}, this model needs {}; {}", p.name, path,
                         describe_shape(found->second.entry.shape), describe_shape(wanted), advice);
  }
  for (const auto& [name, tensor] : tensors)
    if (!known.contains(name))
      return fmt::format("tensor '{}' of '{}' is unknown to this model; {}", name, path, advice);
  return std::nullopt;
}

template <class T>
std::string shown(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return std::string(name_of(value));
  } else if constexpr (std::is_same_v<T, std::string>) {
    return value.empty() ? "none" : value;
  } else {
    return fmt::format("{}", value);
  }
}

// The fields of one object by name, as text; numbers that differ differ here.
template <class T>
std::vector<std::pair<std::string, std::string>> texts_of(T fields) {
  std::vector<std::pair<std::string, std::string>> texts;
  each_field(fields, [&](const char* name, const auto& value) { texts.emplace_back(name, shown(value)); });
  return texts;
}

bool means_something(const std::string& field, bool emulated) {
  static constexpr std::array<std::string_view, 10> not_emulated{
      "width",      "heads",        "kv_heads",           "hidden",       "context", "vocabulary",
      "rope_theta", "norm_epsilon", "micro_batch_tokens", "corpus_sha256"};
  return !emulated ||
         (field != "kernels" && std::find(not_emulated.begin(), not_emulated.end(), field) == not_emulated.end());
}

}  // namespace

std::variant<OpenCheckpoint, std::string> open_checkpoint(Disk& disk, const std::string& path) {
  auto manifest = load_manifest(disk, path);
  if (auto* why = std::get_if<std::string>(&manifest)) return std::move(*why);
  if (auto why = check_files(disk, path, std::get<Manifest>(manifest))) return *why;
  auto model = TensorFiles::open(disk, path, "model");
  if (auto* why = std::get_if<std::string>(&model)) return std::move(*why);
  auto optimizer = TensorFiles::open(disk, path, "optimizer");
  if (auto* why = std::get_if<std::string>(&optimizer)) return std::move(*why);
  OpenCheckpoint open{std::get<Manifest>(std::move(manifest)), std::get<TensorFiles>(std::move(model)),
                      std::get<TensorFiles>(std::move(optimizer))};
  for (const TensorFiles* tensors : {&open.model, &open.optimizer})
    if (auto why = check_vouched(path, *tensors, open.manifest)) return *why;
  if (auto why = check_moments(path, open)) return *why;
  return open;
}

std::variant<CheckpointInfo, std::string> read_manifest(Disk& disk, const std::string& path) {
  auto manifest = load_manifest(disk, path);
  if (auto* why = std::get_if<std::string>(&manifest)) return std::move(*why);
  return std::get<Manifest>(std::move(manifest)).info;
}

std::variant<CheckpointInfo, std::string> verify_checkpoint(Disk& disk, const std::string& path) {
  auto open = open_checkpoint(disk, path);
  if (auto* why = std::get_if<std::string>(&open)) return std::move(*why);
  return std::get<OpenCheckpoint>(std::move(open)).manifest.info;
}

std::vector<CheckpointEntry> list_checkpoints(Disk& disk, const std::string& folder) {
  std::vector<CheckpointEntry> entries;
  const auto steps = list_steps(disk, folder);
  if (!steps) return entries;
  for (const StepFolder& step : steps.value()) {
    const bool is_partial = step.state == StepState::partial || step.state == StepState::removed;
    entries.push_back({folder + "/" + step.name(), step.iteration, is_partial});
  }
  return entries;
}

CheckpointChoice newest_verified(Disk& disk, const std::string& folder) {
  CheckpointChoice choice;
  const auto steps = list_steps(disk, folder);
  if (!steps) choice.passed_over.push_back({folder, steps.error().text()});
  if (!steps) return choice;
  for (const StepFolder& step : steps.value()) {
    const std::string path = folder + "/" + step.name();
    if (step.state == StepState::removed) continue;
    if (step.state == StepState::partial) {
      choice.passed_over.push_back({path, "it was never finished"});
      continue;
    }
    const auto verified = verify_checkpoint(disk, path);
    if (const auto* why = std::get_if<std::string>(&verified)) {
      choice.passed_over.push_back({path, *why});
      continue;
    }
    if (const std::uint32_t holds = std::get<CheckpointInfo>(verified).iteration; holds != step.iteration) {
      choice.passed_over.push_back(
          {path, fmt::format("it holds the state after iteration {}, not {}; give it back its own name", holds,
                             step.iteration)});
      continue;
    }
    choice.path = path;
    break;
  }
  return choice;
}

std::variant<LoadedCheckpoint, std::string> load_checkpoint(Disk& disk, const std::string& path,
                                                            const std::vector<ParameterInfo>& parameters) {
  auto opened = open_checkpoint(disk, path);
  if (auto* why = std::get_if<std::string>(&opened)) return std::move(*why);
  const auto& open = std::get<OpenCheckpoint>(opened);
  if (auto why = check_parameters(path, open.model, parameters)) return *why;
  LoadedCheckpoint loaded{open.manifest.info, {}};
  for (const ParameterInfo& p : parameters) {
    GroupValues& group = loaded.state[p.group];
    const std::size_t size = std::max(group.parameters.size(), p.offset + p.elements());
    for (auto* values : {&group.parameters, &group.first_moments, &group.second_moments}) values->resize(size);
  }
  for (const ParameterInfo& p : parameters) {
    GroupValues& group = loaded.state[p.group];
    const auto slice = [&](std::vector<float>& values) { return std::span(values).subspan(p.offset, p.elements()); };
    if (auto why = open.model.read(disk, p.name, slice(group.parameters))) return *why;
    if (auto why = open.optimizer.read(disk, std::string(moments[0]) + p.name, slice(group.first_moments))) return *why;
    if (auto why = open.optimizer.read(disk, std::string(moments[1]) + p.name, slice(group.second_moments)))
      return *why;
  }
  return loaded;
}

std::string differences(const JobIdentity& found, const JobIdentity& wanted) {
  const auto differs = [](const std::string& name, const std::string& a, const std::string& b) {
    return fmt::format("{} is {} in the checkpoint, {} in this job", name, a, b);
  };
  if (found.emulated != wanted.emulated) {
    const auto kind = [](bool emulated) { return emulated ? "emulated" : "cpu"; };
    return differs("the device kind", kind(found.emulated), kind(wanted.emulated));
  }
  std::vector<std::string> all;
  const auto compare = [&](const std::string& section, const auto& a, const auto& b) {
    for (std::size_t i = 0; i < a.size(); ++i)
      if (a[i].second != b[i].second && means_something(a[i].first, found.emulated))
        all.push_back(differs(section + a[i].first, a[i].second, b[i].second));
  };
  compare("model.", texts_of(found.model), texts_of(wanted.model));
  compare("", texts_of(found), texts_of(wanted));
  return fmt::format("{}", fmt::join(all, "; "));
}

}  // namespace stagecraft
