#include "model/checkpoint/tensor_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>

#include "model/checkpoint/json_limits.hpp"

namespace stagecraft {
namespace {

using Json = nlohmann::json;

constexpr std::size_t piece_bytes = std::size_t{1} << 20U;
constexpr std::size_t deepest_index = 2;  // index, weight_map

bool is_there(Disk& disk, const std::string& path) { return static_cast<bool>(disk.read_at(path, 0, {})); }

}  // namespace

std::string index_file_of(const std::string& stem) { return stem + ".safetensors.index.json"; }

std::string tensor_file_of(const std::string& stem, std::size_t number, std::size_t of) {
  return of == 1 ? stem + ".safetensors" : fmt::format("{}-{:05}-of-{:05}.safetensors", stem, number, of);
}

std::variant<TensorFiles, std::string> TensorFiles::open(Disk& disk, const std::string& folder,
                                                         const std::string& stem) {
  TensorFiles files;
  files.folder_ = folder;
  const std::string single = tensor_file_of(stem, 1, 1), index = index_file_of(stem);
  const bool has_index = is_there(disk, folder + "/" + index), has_single = is_there(disk, folder + "/" + single);
  if (has_index && has_single)
    return fmt::format("'{}' holds both {} and {}; remove the one that is not meant", folder, single, index);
  const auto problem = has_index ? files.add_index(disk, index) : files.add_file(disk, single);
  if (problem) return *problem;
  std::sort(files.files_.begin(), files.files_.end());
  return files;
}

std::optional<std::string> TensorFiles::add_file(Disk& disk, const std::string& file) {
  const std::string path = folder_ + "/" + file;
  auto header = read_safetensors_header(disk, path);
  if (const auto* why = std::get_if<std::string>(&header)) return *why;
  for (TensorEntry& entry : std::get<SafetensorsHeader>(header).tensors) {
    std::string name = entry.name;
    const auto [at, is_new] = tensors_.try_emplace(std::move(name), Tensor{file, std::move(entry)});
    if (!is_new) return fmt::format("tensor '{}' is both in '{}' and in '{}'", at->first, at->second.file, path);
  }
  files_.push_back(file);
  return std::nullopt;
}

std::optional<std::string> TensorFiles::add_index(Disk& disk, const std::string& index) {
  const std::string path = folder_ + "/" + index;
  const auto wrong = [&](const std::string& what) { return fmt::format("'{}' is no sound index: {}", path, what); };
  const auto text = disk.read(path);
  if (!text) return text.error().text();
  if (const std::size_t depth = nesting_depth(text.value()); depth > deepest_index)
    return wrong(fmt::format("it nests {} levels deep, at most {} make sense", depth, deepest_index));
  const Json json = Json::parse(text.value(), nullptr, false);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    return wrong("it is no JSON object with a weight_map");
  std::map<std::string, std::string> places;
  std::set<std::string> names;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    if (!file.is_string()) return wrong(fmt::format("the file of tensor '{}' is no text", tensor));
    const auto name = file.get<std::string>();
    if (name.find('/') != std::string::npos || !name.ends_with(".safetensors"))
      return wrong(fmt::format("'{}' of tensor '{}' is no safetensors file of this folder", name, tensor));
    places[tensor] = name;
    names.insert(name);
  }
  for (const std::string& name : names)
    if (auto why = add_file(disk, name)) return why;
  for (const auto& [tensor, file] : places) {
    const auto found = tensors_.find(tensor);
    if (found == tensors_.end() || found->second.file != file)
      return wrong(fmt::format("tensor '{}' is not in '{}'", tensor, file));
  }
  for (const auto& [name, tensor] : tensors_)
    if (!places.contains(name)) return wrong(fmt::format("tensor '{}' of '{}' is not in it", name, tensor.file));
  files_.push_back(index);
  return std::nullopt;
}

std::uint64_t TensorFiles::bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [name, tensor] : tensors_) sum += tensor.entry.bytes;
  return sum;
}

std::vector<std::string> TensorFiles::stored_order() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  const auto place = [&](const std::string& name) {
    const Tensor& tensor = tensors_.at(name);
    return std::tie(tensor.file, tensor.entry.offset, tensor.entry.bytes);
  };
  std::stable_sort(names.begin(), names.end(), [&](const auto& a, const auto& b) { return place(a) < place(b); });
  return names;
}

std::optional<std::string> TensorFiles::read(Disk& disk, const std::string& name, std::span<float> values) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return fmt::format("tensor '{}' is not in '{}'", name, folder_);
  const auto& [file, entry] = found->second;
  const std::string path = folder_ + "/" + file;
  if (entry.dtype != "F32" || entry.bytes != values.size_bytes())
    return fmt::format("tensor '{}' of '{}' is {} {}, not {} numbers of F32", name, path, entry.dtype,
                       describe_shape(entry.shape), values.size());
  const auto got = disk.read_at(path, entry.offset, {reinterpret_cast<char*>(values.data()), values.size_bytes()});
  if (!got) return got.error().text();
  if (got.value() < values.size_bytes()) return fmt::format("'{}' became shorter while it was read", path);
  return std::nullopt;
}

std::optional<std::string> TensorFiles::stream(
    Disk& disk, const std::string& name,
    const std::function<std::optional<std::string>(std::string_view)>& take) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return fmt::format("tensor '{}' is not in '{}'", name, folder_);
  const auto& [file, entry] = found->second;
  const std::string path = folder_ + "/" + file;
  std::string piece(std::min<std::uint64_t>(piece_bytes, entry.bytes), '\0');
  for (std::uint64_t done = 0; done < entry.bytes; done += piece.size()) {
    piece.resize(std::min<std::uint64_t>(piece.size(), entry.bytes - done));
    const auto got = disk.read_at(path, entry.offset + done, piece);
    if (!got) return got.error().text();
    if (got.value() < piece.size()) return fmt::format("'{}' became shorter while it was read", path);
    if (auto why = take(piece)) return why;
  }
  return std::nullopt;
}

std::optional<std::string> check_file(Disk& disk, const std::string& path, const WrittenFile& expected) {
  Checksum hash;
  std::uint64_t bytes = 0;
  // One byte more than expected, so that the end is seen at once.
  for (std::string piece(std::min<std::uint64_t>(piece_bytes - 1, expected.bytes) + 1, '\0');;) {
    const auto got = disk.read_at(path, bytes, piece);
    if (!got) return got.error().text();
    bytes += got.value();
    if (bytes > expected.bytes) break;
    hash.update(std::string_view(piece).substr(0, got.value()));
    if (got.value() < piece.size()) break;
  }
  if (bytes != expected.bytes)
    return fmt::format("'{}' holds {}{} bytes, its manifest says {}", path, bytes > expected.bytes ? "at least " : "",
                       bytes, expected.bytes);
  if (const std::string found = hash.hex(); found != expected.xxh128)
    return fmt::format("'{}' has checksum {}, its manifest says {}", path, found, expected.xxh128);
  return std::nullopt;
}

}  // namespace stagecraft
