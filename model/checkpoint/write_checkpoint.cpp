#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "model/checkpoint/checkpoint.hpp"
#include "model/checkpoint/checkpoint_folder.hpp"
#include "model/checkpoint/hugging_face.hpp"
#include "model/checkpoint/manifest.hpp"
#include "model/checkpoint/safetensors.hpp"

namespace stagecraft {
namespace {

using FragmentList = std::vector<Fragment> GroupFragments::*;

// One kind of values, and how its tensors are called.
struct Part {
  const char* prefix;
  FragmentList values;
};

constexpr Part parameters_part{"", &GroupFragments::parameters};
constexpr Part first_moments_part{"first_moment.", &GroupFragments::first_moments};
constexpr Part second_moments_part{"second_moment.", &GroupFragments::second_moments};

// Elements of every group, or what is wrong with the list of parameters.
std::variant<std::map<GroupId, std::size_t>, std::string> sizes_of(std::vector<ParameterInfo> parameters) {
  std::map<GroupId, std::size_t> sizes;
  std::set<std::string> names;
  std::sort(parameters.begin(), parameters.end(), [](const ParameterInfo& a, const ParameterInfo& b) {
    return std::make_pair(a.group, a.offset) < std::make_pair(b.group, b.offset);
  });
  for (const ParameterInfo& p : parameters) {
    std::size_t& size = sizes[p.group];
    if (p.offset != size)
      return fmt::format("parameter '{}' begins at element {} of group {}, the one before ends at {}", p.name, p.offset,
                         p.group.value, size);
    if (!names.insert(p.name).second) return fmt::format("there are two parameters '{}'", p.name);
    size += p.elements();
  }
  return sizes;
}

// Sorts the fragments of a group and checks that they cover it once.
CheckpointStatus cover(std::vector<Fragment>& fragments, std::size_t size, GroupId group, const Part& part) {
  std::sort(fragments.begin(), fragments.end(), [](const Fragment& a, const Fragment& b) {
    return std::make_pair(a.first, a.values.size()) < std::make_pair(b.first, b.values.size());
  });
  std::size_t end = 0;
  for (const Fragment& fragment : fragments) {
    if (fragment.first != end)
      return fmt::format("the fragments of {}group {} {} at element {}", part.prefix, group.value,
                         fragment.first < end ? "overlap" : "leave a hole", std::min(fragment.first, end));
    end += fragment.values.size();
  }
  if (end != size)
    return fmt::format("the fragments of {}group {} end at element {}, the group has {}", part.prefix, group.value, end,
                       size);
  return std::nullopt;
}

CheckpointStatus cover_all(StateView& state, const std::vector<ParameterInfo>& parameters) {
  const auto sizes = sizes_of(parameters);
  if (const auto* why = std::get_if<std::string>(&sizes)) return *why;
  const auto& groups = std::get<std::map<GroupId, std::size_t>>(sizes);
  for (const auto& [group, fragments] : state)
    if (!groups.contains(group)) return fmt::format("group {} holds no parameter", group.value);
  for (const auto& [group, size] : groups)
    for (const Part& part : {parameters_part, first_moments_part, second_moments_part})
      if (auto why = cover(state[group].*part.values, size, group, part)) return why;
  return std::nullopt;
}

std::vector<std::uint64_t> shape_of(const ParameterInfo& parameter) {
  return {parameter.shape.begin(), parameter.shape.end()};
}

// The elements of one parameter, out of the sorted fragments of its group.
CheckpointStatus write_tensor(SafetensorsWriter& writer, const ParameterInfo& parameter,
                              const std::vector<Fragment>& fragments) {
  const std::size_t end = parameter.offset + parameter.elements();
  for (const Fragment& fragment : fragments) {
    const std::size_t from = std::max(parameter.offset, fragment.first);
    const std::size_t to = std::min(end, fragment.first + fragment.values.size());
    if (from >= to) continue;
    if (auto why = writer.write(fragment.values.subspan(from - fragment.first, to - from))) return why;
  }
  return std::nullopt;
}

struct FileWriting {
  Disk& disk;
  const std::string& folder;
  Manifest& manifest;

  CheckpointStatus note(std::variant<WrittenFile, std::string> written) const {
    if (auto* why = std::get_if<std::string>(&written)) return std::move(*why);
    manifest.files.push_back(std::get<WrittenFile>(std::move(written)));
    return std::nullopt;
  }

  CheckpointStatus text(const std::string& name, const std::string& content) const {
    return note(write_synced(disk, folder, name, content));
  }

  CheckpointStatus tensors(const std::string& name, const std::vector<ParameterInfo>& parameters,
                           const StateView& state, const std::vector<Part>& parts) const {
    std::vector<TensorEntry> entries;
    for (const Part& part : parts)
      for (const ParameterInfo& p : parameters)
        entries.push_back({.name = part.prefix + p.name, .shape = shape_of(p), .bytes = sizeof(float) * p.elements()});
    auto created = SafetensorsWriter::create(disk, folder + "/" + name, entries);
    if (auto* why = std::get_if<std::string>(&created)) return std::move(*why);
    auto& writer = std::get<SafetensorsWriter>(created);
    for (const Part& part : parts)
      for (const ParameterInfo& p : parameters)
        if (auto why = write_tensor(writer, p, state.at(p.group).*part.values)) return why;
    return note(writer.finish());
  }
};

CheckpointStatus write_files(Disk& disk, const std::string& folder, const CheckpointInfo& info,
                             const std::vector<ParameterInfo>& parameters, const StateView& state) {
  Manifest manifest{info, {}};
  const FileWriting files{disk, folder, manifest};
  if (!info.identity.emulated)
    if (auto why = files.text("config.json", config_json(info.identity.model))) return why;
  if (auto why = files.tensors("model.safetensors", parameters, state, {parameters_part})) return why;
  if (auto why = files.tensors("optimizer.safetensors", parameters, state, {first_moments_part, second_moments_part}))
    return why;
  const auto last = write_synced(disk, folder, std::string(manifest_file), manifest_text(manifest));
  if (const auto* why = std::get_if<std::string>(&last)) return *why;
  return std::nullopt;
}

}  // namespace

CheckpointStatus write_checkpoint(Disk& disk, const std::string& folder, const CheckpointInfo& info,
                                  const std::vector<ParameterInfo>& parameters, const StateView& state,
                                  std::uint32_t keep) {
  const std::string partial = folder + "/" + StepFolder{info.iteration, StepState::partial}.name();
  const auto failed = [&](const std::string& why) {
    return fmt::format("no checkpoint of iteration {}: {}", info.iteration, why);
  };
  StateView sorted = state;
  if (const auto why = cover_all(sorted, parameters)) return failed(*why);
  if (const DiskStatus status = disk.make_directories(folder)) return failed(status->text());
  clear_abandoned(disk, folder);
  CheckpointStatus problem;
  if (const DiskStatus status = disk.make_directories(partial)) problem = status->text();
  if (!problem) problem = write_files(disk, partial, info, parameters, sorted);
  if (!problem) problem = put_step_in_place(disk, folder, info.iteration);
  if (problem) {
    disk.remove(partial);  // gives the space back; what stays is removed by the next one that writes
    return failed(*problem);
  }
  remove_beyond(disk, folder, keep, info.iteration);
  return std::nullopt;
}

}  // namespace stagecraft
