// One safetensors file: a header length (8 bytes, lowest first), a JSON header, the tensors' bytes, without a gap.
//
// What it never does: believe a header. Lengths are compared with the size of the file before anything is allocated,
// and a header is refused when it is not JSON, nests too deep, names a tensor twice, gives one a size that is not its
// shape's, or leaves holes or overlaps in the data.
//
// Who knocks: the checkpoint writer and reader, the exports. It neither throws nor prints.
// Thread promise: any thread; every call blocks on the disk.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/checksum.hpp"
#include "transport/disk.hpp"

namespace stagecraft {

/// The format's own limit, in bytes.
inline constexpr std::uint64_t safetensors_header_limit = 100'000'000;

struct TensorEntry {
  std::string name;
  std::string dtype = "F32";  ///< F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL F8_E4M3 F8_E5M2
  std::vector<std::uint64_t> shape;
  std::uint64_t offset = 0;  ///< bytes from the start of the file
  std::uint64_t bytes = 0;
};

/// "[3, 4]"
std::string describe_shape(std::span<const std::uint64_t> shape);

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  ///< in the order of their data, which cover the rest of the file exactly
  std::map<std::string, std::string> metadata;
};

/// What is in a file, or what is wrong with its header, with file, numbers and reason.
std::variant<SafetensorsHeader, std::string> read_safetensors_header(Disk& disk, const std::string& path);

/// A file as it was written.
struct WrittenFile {
  std::string name;  ///< without the folder
  std::uint64_t bytes = 0;
  std::string xxh128;
};

/// Writes one file, tensor after tensor, with a small buffer. One owner, one thread.
class SafetensorsWriter {
 public:
  /// Names and shapes of `tensors` count, their offsets do not; all are F32. Writes the header.
  static std::variant<SafetensorsWriter, std::string> create(Disk& disk, const std::string& path,
                                                             const std::vector<TensorEntry>& tensors);

  /// The next bytes of the data. What is wrong, if anything is; nothing works after that.
  std::optional<std::string> write(std::string_view bytes);
  std::optional<std::string> write(std::span<const float> values);
  /// After the last byte of the last tensor: syncs the file.
  std::variant<WrittenFile, std::string> finish();

 private:
  SafetensorsWriter(std::string path, std::unique_ptr<FileWriter> file, std::uint64_t data_bytes);
  std::optional<std::string> flush();

  std::string path_;
  std::unique_ptr<FileWriter> file_;
  std::uint64_t data_bytes_;
  std::uint64_t written_ = 0;  // of the data
  std::uint64_t bytes_ = 0;    // of the file
  std::string buffer_;
  Checksum hash_;
};

}  // namespace stagecraft
