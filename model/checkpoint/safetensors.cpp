#include "model/checkpoint/safetensors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "model/checkpoint/json_limits.hpp"

namespace stagecraft {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are stored with the lowest byte first");

using Json = nlohmann::json;

constexpr std::size_t length_bytes = 8;
constexpr std::size_t deepest_header = 3;  // header, tensor, shape
constexpr std::size_t buffer_bytes = std::size_t{1} << 20U;

constexpr std::array<std::pair<std::string_view, std::uint64_t>, 12> dtype_bytes{{{"F64", 8},
                                                                                  {"F32", 4},
                                                                                  {"F16", 2},
                                                                                  {"BF16", 2},
                                                                                  {"I64", 8},
                                                                                  {"I32", 4},
                                                                                  {"I16", 2},
                                                                                  {"I8", 1},
                                                                                  {"U8", 1},
                                                                                  {"BOOL", 1},
                                                                                  {"F8_E4M3", 1},
                                                                                  {"F8_E5M2", 1}}};

std::optional<std::uint64_t> bytes_of(std::string_view dtype) {
  for (const auto& [name, bytes] : dtype_bytes)
    if (name == dtype) return bytes;
  return std::nullopt;
}

// Empty when the product does not fit.
std::optional<std::uint64_t> product(std::span<const std::uint64_t> factors) {
  std::uint64_t result = 1;
  for (const std::uint64_t factor : factors)
    if (__builtin_mul_overflow(result, factor, &result)) return std::nullopt;
  return result;
}

std::optional<std::uint64_t> file_bytes(Disk& disk, const std::string& path, std::string& why) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash == 0 ? 1 : slash);
  const std::string name = path.substr(slash == std::string::npos ? 0 : slash + 1);
  const auto entries = disk.list(folder);
  if (!entries) return why = entries.error().text(), std::nullopt;
  for (const DiskEntry& entry : entries.value())
    if (entry.name == name && !entry.folder) return entry.bytes;
  return why = disk_error("read", path, ENOENT).text(), std::nullopt;
}

// Reads one header, and stops at the first thing that is wrong.
class HeaderReader {
 public:
  HeaderReader(const std::string& path, std::uint64_t data_start, std::uint64_t data_bytes)
      : path_(path), data_start_(data_start), data_bytes_(data_bytes) {}

  std::variant<SafetensorsHeader, std::string> read(std::string_view text) {
    if (text.empty() || text.front() != '{') return wrong("its header does not begin with '{'");
    if (const std::size_t depth = nesting_depth(text); depth > deepest_header)
      return wrong(fmt::format("its header nests {} levels deep, at most {} make sense", depth, deepest_header));
    // Tensors are taken as they come, so that the header is never in memory as a tree, and no name gets lost twice.
    const auto take = [this](int depth, Json::parse_event_t event, Json& value) {
      if (depth == 1 && event == Json::parse_event_t::key) name_ = value.get<std::string>();
      if (depth != 1 || event != Json::parse_event_t::object_end || problem_) return true;
      take_entry(value);
      return false;
    };
    const Json rest = Json::parse(text, take, false);
    if (rest.is_discarded()) return wrong("its header is no JSON");
    if (problem_) return wrong(*problem_);
    if (!rest.empty()) return wrong(fmt::format("'{}' is described by no object", rest.begin().key()));
    if (const auto gap = find_gap()) return wrong(*gap);
    return std::move(header_);
  }

 private:
  std::string wrong(const std::string& what) const {
    return fmt::format("'{}' is no sound safetensors file: {}; it is damaged, take another copy", path_, what);
  }

  void take_entry(const Json& value) {
    if (!names_.insert(name_).second) {
      problem_ = fmt::format("'{}' is named twice", name_);
    } else if (name_ == "__metadata__") {
      for (const auto& [key, text] : value.items()) {
        if (!text.is_string()) return void(problem_ = fmt::format("the metadata '{}' is no text", key));
        header_.metadata[key] = text.get<std::string>();
      }
    } else {
      take_tensor(value);
    }
  }

  void take_tensor(const Json& value) {
    const auto fail = [&](const std::string& what) { problem_ = fmt::format("tensor '{}' {}", name_, what); };
    TensorEntry tensor{name_, "", {}, 0, 0};
    for (const char* key : {"dtype", "shape", "data_offsets"})
      if (!value.contains(key)) return fail(fmt::format("has no {}", key));
    const Json &dtype = value["dtype"], &shape = value["shape"], &offsets = value["data_offsets"];
    const auto is_size = [](const Json& number) { return number.is_number_unsigned(); };
    if (!dtype.is_string() || !bytes_of(dtype.get<std::string>()))
      return fail(fmt::format("has the unknown dtype {}", dtype.dump()));
    if (!shape.is_array() || !std::all_of(shape.begin(), shape.end(), is_size))
      return fail("has a shape that is no list of sizes");
    if (!offsets.is_array() || offsets.size() != 2 || !std::all_of(offsets.begin(), offsets.end(), is_size))
      return fail("has data_offsets that are no two numbers");
    tensor.dtype = dtype.get<std::string>();
    tensor.shape = shape.get<std::vector<std::uint64_t>>();
    const auto begin = offsets[0].get<std::uint64_t>(), end = offsets[1].get<std::uint64_t>();
    if (begin > end || end > data_bytes_)
      return fail(fmt::format("claims bytes {} to {} of {} bytes of data", begin, end, data_bytes_));
    std::vector<std::uint64_t> factors = tensor.shape;
    factors.push_back(*bytes_of(tensor.dtype));
    if (const auto bytes = product(factors); bytes != end - begin)
      return fail(fmt::format("is {} of shape {}, which is {} bytes, but has {}", tensor.dtype,
                              describe_shape(tensor.shape), bytes ? std::to_string(*bytes) : "more than 2^64",
                              end - begin));
    tensor.offset = data_start_ + begin;
    tensor.bytes = end - begin;
    header_.tensors.push_back(std::move(tensor));
  }

  // Sorts the tensors by their place: each has to begin where the one before ends.
  std::optional<std::string> find_gap() {
    std::sort(header_.tensors.begin(), header_.tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
      return std::tie(a.offset, a.bytes) < std::tie(b.offset, b.bytes);
    });
    std::uint64_t end = data_start_;
    for (const TensorEntry& tensor : header_.tensors) {
      if (tensor.offset < end)
        return fmt::format("tensor '{}' overlaps the one before by {} bytes", tensor.name, end - tensor.offset);
      if (tensor.offset > end)
        return fmt::format("there is a hole of {} bytes before tensor '{}'", tensor.offset - end, tensor.name);
      end += tensor.bytes;
    }
    if (end != data_start_ + data_bytes_)
      return fmt::format("{} bytes after the last tensor belong to none", data_start_ + data_bytes_ - end);
    return std::nullopt;
  }

  const std::string& path_;
  std::uint64_t data_start_, data_bytes_;
  std::string name_;
  std::set<std::string> names_;
  std::optional<std::string> problem_;
  SafetensorsHeader header_;
};

}  // namespace

std::string describe_shape(std::span<const std::uint64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

std::variant<SafetensorsHeader, std::string> read_safetensors_header(Disk& disk, const std::string& path) {
  std::string why;
  const auto size = file_bytes(disk, path, why);
  if (!size) return why;
  const auto cut = [&](const std::string& what) {
    return fmt::format("'{}' is no sound safetensors file: {}; it is damaged, take another copy", path, what);
  };
  std::array<char, length_bytes> start;
  const auto got = disk.read_at(path, 0, start);
  if (!got) return got.error().text();
  if (got.value() < length_bytes) return cut(fmt::format("{} bytes hold no header length", *size));
  const auto length = std::bit_cast<std::uint64_t>(start);
  if (length > safetensors_header_limit)
    return cut(fmt::format("it claims a header of {} bytes, the format allows {}", length, safetensors_header_limit));
  if (length > *size - length_bytes)
    return cut(fmt::format("it claims a header of {} bytes, but only {} bytes follow", length, *size - length_bytes));
  std::string text(length, '\0');
  const auto header = disk.read_at(path, length_bytes, text);
  if (!header) return header.error().text();
  if (header.value() < length) return cut("it became shorter while it was read");
  return HeaderReader(path, length_bytes + length, *size - length_bytes - length).read(text);
}

SafetensorsWriter::SafetensorsWriter(std::string path, std::unique_ptr<FileWriter> file, std::uint64_t data_bytes)
    : path_(std::move(path)), file_(std::move(file)), data_bytes_(data_bytes) {}

std::variant<SafetensorsWriter, std::string> SafetensorsWriter::create(Disk& disk, const std::string& path,
                                                                       const std::vector<TensorEntry>& tensors) {
  std::uint64_t at = 0;
  std::string text = R"({"__metadata__":{"format":"pt"})";
  for (const TensorEntry& tensor : tensors) {
    const std::uint64_t bytes = sizeof(float) * product(tensor.shape).value_or(0);
    text += fmt::format(R"(,{}:{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})", Json(tensor.name).dump(),
                        fmt::join(tensor.shape, ","), at, at + bytes);
    at += bytes;
  }
  text += '}';
  text.append((length_bytes - text.size() % length_bytes) % length_bytes, ' ');
  if (text.size() > safetensors_header_limit)
    return fmt::format("cannot write '{}': {} tensors need a header of {} bytes, the format allows {}; use more files",
                       path, tensors.size(), text.size(), safetensors_header_limit);
  auto file = disk.create(path);
  if (!file) return file.error().text();
  SafetensorsWriter writer(path, std::move(file.value()), at);
  const auto length = std::bit_cast<std::array<char, length_bytes>>(std::uint64_t{text.size()});
  writer.buffer_.assign(length.begin(), length.end());
  writer.buffer_ += text;
  return writer;
}

std::optional<std::string> SafetensorsWriter::write(std::string_view bytes) {
  written_ += bytes.size();
  while (!bytes.empty()) {
    const std::string_view part = bytes.substr(0, buffer_bytes);
    buffer_ += part;
    bytes.remove_prefix(part.size());
    if (buffer_.size() >= buffer_bytes)
      if (auto why = flush()) return why;
  }
  return std::nullopt;
}

std::optional<std::string> SafetensorsWriter::write(std::span<const float> values) {
  return write(std::string_view(reinterpret_cast<const char*>(values.data()), values.size_bytes()));
}

std::optional<std::string> SafetensorsWriter::flush() {
  if (const DiskStatus status = file_->write(buffer_)) return status->text();
  hash_.update(buffer_);
  bytes_ += buffer_.size();
  buffer_.clear();
  return std::nullopt;
}

std::variant<WrittenFile, std::string> SafetensorsWriter::finish() {
  if (written_ != data_bytes_)
    return fmt::format("cannot finish '{}': {} bytes of data were written, its header promises {}", path_, written_,
                       data_bytes_);
  if (auto why = flush()) return *why;
  if (const DiskStatus status = file_->finish()) return status->text();
  return WrittenFile{path_.substr(path_.rfind('/') + 1), bytes_, hash_.hex()};
}

}  // namespace stagecraft
