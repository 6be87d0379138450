#include "model/checkpoint/manifest.hpp"

#include <fmt/format.h>

#include <array>
#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "model/checkpoint/fields.hpp"
#include "model/checkpoint/json_limits.hpp"
#include "model/sha256.hpp"

namespace stagecraft {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view format_name = "stagecraft checkpoint";
constexpr std::uint32_t version = 1;
constexpr std::size_t deepest_manifest = 3;  // manifest, identity, model
constexpr std::size_t hash_digits = 64;
constexpr std::array<std::string_view, 3> rate_names{"constant", "cosine", "linear"};  // by RateSchedule
constexpr std::array kernel_kinds{KernelKind::exact, KernelKind::onednn};

std::string_view name_of(RateSchedule schedule) { return rate_names[static_cast<std::size_t>(schedule)]; }

// The end of the text: from the comma before the hash on.
std::string tail(std::string_view body) {
  return fmt::format(",\n  \"sha256\": \"{}\"\n}}\n", Sha256().update(body).hex());
}

struct Write {
  Json& json;
  template <class T>
  void operator()(const char* name, const T& value) {
    if constexpr (std::is_enum_v<T>) {
      json[name] = name_of(value);
    } else {
      json[name] = value;
    }
  }
};

// Fills fields from an object, and keeps the first thing that is wrong with it.
struct Read {
  const Json& json;
  std::string& problem;

  template <class T>
  void operator()(const char* name, T& value) {
    if (!problem.empty()) return;
    const auto found = json.find(name);
    if (found == json.end()) {
      problem = fmt::format("'{}' is missing", name);
    } else if (!take(*found, value)) {
      problem = fmt::format("'{}' is {}, which makes no sense there", name, found->dump());
    }
  }

 private:
  static bool take(const Json& from, bool& value) { return from.is_boolean() && (from.get_to(value), true); }
  static bool take(const Json& from, double& value) { return from.is_number() && (from.get_to(value), true); }
  static bool take(const Json& from, std::string& value) { return from.is_string() && (from.get_to(value), true); }
  template <std::unsigned_integral T>
  static bool take(const Json& from, T& value) {
    return from.is_number_unsigned() && from.get<std::uint64_t>() <= std::numeric_limits<T>::max() &&
           (from.get_to(value), true);
  }
  static bool take(const Json& from, KernelKind& value) {
    for (const KernelKind kind : kernel_kinds)
      if (from == stagecraft::name_of(kind)) return value = kind, true;
    return false;
  }
  static bool take(const Json& from, RateSchedule& value) {
    for (std::size_t i = 0; i < rate_names.size(); ++i)
      if (from == rate_names[i]) return value = static_cast<RateSchedule>(i), true;
    return false;
  }
};

// The object `name` of `parent`; an empty one, and a problem, when it is not there.
Json object_of(const Json& parent, const char* name, std::string& problem) {
  const auto found = parent.find(name);
  if (found != parent.end() && found->is_object()) return *found;
  if (problem.empty()) problem = fmt::format("'{}' is no object", name);
  return Json::object();
}

void read_files(const Json& json, std::vector<WrittenFile>& files, std::string& problem) {
  const auto found = json.find("files");
  if (found == json.end() || !found->is_array()) return void(problem = "'files' is no list");
  std::set<std::string> names;
  for (const Json& entry : *found) {
    WrittenFile& file = files.emplace_back();
    if (!entry.is_object()) return void(problem = "an entry of 'files' is no object");
    Read read{entry, problem};
    read("name", file.name);
    read("bytes", file.bytes);
    read("xxh128", file.xxh128);
    if (!problem.empty()) return;
    const bool is_plain = !file.name.empty() && file.name.find('/') == std::string::npos && file.name != "..";
    if (!is_plain || file.name == manifest_file || !names.insert(file.name).second)
      return void(problem = fmt::format("'files' names '{}', which makes no sense there", file.name));
  }
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  CheckpointInfo info = manifest.info;
  Json json;
  json["format"] = format_name;
  json["version"] = version;
  each_field(info, Write{json});
  Json model = Json::object(), identity = Json::object(), optimizer = Json::object();
  each_field(info.identity, Write{identity});
  each_field(info.identity.model, Write{model});
  each_field(info.optimizer, Write{optimizer});
  identity["model"] = model;
  json["identity"] = identity;
  json["optimizer"] = optimizer;
  for (const WrittenFile& file : manifest.files)
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"xxh128", file.xxh128}});
  std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace);
  text.resize(text.size() - 2);  // the end of the line and the last brace
  return text + tail(text);
}

std::variant<Manifest, std::string> parse_manifest(std::string_view text) {
  const std::size_t tail_bytes = tail("").size();
  if (text.size() < tail_bytes) return fmt::format("it is only {} bytes long", text.size());
  const std::string_view body = text.substr(0, text.size() - tail_bytes);
  if (text.substr(body.size()) != tail(body))
    return std::string("its last line does not hold the SHA-256 of the others");
  if (const std::size_t depth = nesting_depth(text); depth > deepest_manifest)
    return fmt::format("it nests {} levels deep, at most {} make sense", depth, deepest_manifest);
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::string("it is no JSON object");
  Manifest manifest;
  CheckpointInfo& info = manifest.info;
  std::string problem, format;
  std::uint32_t found_version = 0;
  Read{json, problem}("format", format);
  Read{json, problem}("version", found_version);
  if (problem.empty() && (format != format_name || found_version != version))
    problem = fmt::format("it is a '{}' of version {}, expected a '{}' of version {}", format, found_version,
                          format_name, version);
  each_field(info, Read{json, problem});
  const Json identity = object_of(json, "identity", problem);
  each_field(info.identity, Read{identity, problem});
  each_field(info.identity.model, Read{object_of(identity, "model", problem), problem});
  each_field(info.optimizer, Read{object_of(json, "optimizer", problem), problem});
  const ModelSpec& model = info.identity.model;
  const auto makes_sense = [](std::uint32_t n) { return n > 0 && n <= 1'000'000; };
  if (problem.empty() && !info.identity.emulated &&
      !(makes_sense(model.layers) && makes_sense(model.width) && makes_sense(model.heads) &&
        makes_sense(model.kv_heads) && makes_sense(model.hidden) && makes_sense(model.vocabulary)))
    problem = fmt::format("a model of {} layers, width {}, {} heads, {} key heads, hidden {}, vocabulary {} cannot be",
                          model.layers, model.width, model.heads, model.kv_heads, model.hidden, model.vocabulary);
  if (problem.empty()) read_files(json, manifest.files, problem);
  if (!problem.empty()) return problem;
  return manifest;
}

std::variant<Manifest, std::string> load_manifest(Disk& disk, const std::string& path) {
  const std::string file = path + "/" + std::string(manifest_file);
  const auto text = disk.read(file);
  if (!text) return text.error().text();
  auto manifest = parse_manifest(text.value());
  if (const auto* why = std::get_if<std::string>(&manifest)) return fmt::format("'{}' is damaged: {}", file, *why);
  return manifest;
}

}  // namespace stagecraft
