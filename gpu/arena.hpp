// The memory of one device: counted buffers, a limit, and a high-water mark.
//
// Who knocks: operators (allocate), stages (read the marks). What it never does: know what is in a buffer.
// Thread promise: any thread; counters are exact at every allocation.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "planning/units.hpp"

namespace stagecraft {

class Arena;

/// A counted block of device memory, 64-byte aligned. Freed, and given back to the arena that is charged for it, when
/// the last handle goes. Contents are not initialised.
class Buffer {
  struct Key {};  // only arenas make buffers

 public:
  Buffer(Key, std::shared_ptr<Arena> arena, std::byte* data, std::size_t size, Bytes charged);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  /// Bytes that can be used.
  std::size_t size() const { return size_; }
  /// Bytes that are charged to the arena: the size, or what the cost table of an emulated device says instead.
  Bytes charged() const { return charged_; }
  Arena& arena() { return *charged_to_; }
  /// Charges another arena from now on (a tensor that crossed a link belongs to its receiver).
  void charge_to(std::shared_ptr<Arena> arena);

 private:
  friend class Arena;
  std::shared_ptr<Arena> home_;  // whose free list the block returns to
  std::shared_ptr<Arena> charged_to_;
  std::byte* data_;
  std::size_t size_;
  Bytes charged_;
};

using BufferRef = std::shared_ptr<Buffer>;

class Arena : public std::enable_shared_from_this<Arena> {
  struct Key {};  // arenas live in shared pointers only

 public:
  Arena(Key, std::string name, Bytes limit) : name_(std::move(name)), limit_(limit) {}
  static std::shared_ptr<Arena> make(std::string name, Bytes limit);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// A buffer of `size` bytes, charged as `charged` bytes (default: as many). Never null. Going over the limit is
  /// counted (`overdrafts`), not refused: the plan's estimate is checked before a run, and a run that exceeds it says
  /// so.
  BufferRef allocate(std::size_t size);
  BufferRef allocate(std::size_t size, Bytes charged);

  const std::string& name() const { return name_; }
  Bytes limit() const { return limit_; }
  Bytes used() const { return {used_.load()}; }
  /// The largest `used` ever seen.
  Bytes peak() const { return {peak_.load()}; }
  std::uint64_t overdrafts() const { return overdrafts_.load(); }

 private:
  friend class Buffer;
  void charge(Bytes bytes);
  void refund(Bytes bytes);
  void take_back(std::byte* data, std::size_t size);
  std::byte* from_shelf(std::size_t capacity);
  void clear_stalest_shelf();

  std::string name_;
  Bytes limit_;
  std::atomic<std::uint64_t> used_ = 0, peak_ = 0, overdrafts_ = 0;
  std::mutex mutex_;
  struct Shelf {
    std::vector<std::byte*> blocks;
    std::uint64_t last_use = 0;
  };
  std::map<std::size_t, Shelf> shelves_;  // by capacity class: blocks ready for another life
  std::size_t shelved_ = 0;               // their bytes
  std::uint64_t uses_ = 0;                // counts allocations, to find the shelf that nobody needs
};

/// A handle to floats in a buffer. Copying copies the handle. Empty by default.
class Tensor {
 public:
  Tensor() = default;
  /// Uninitialised floats.
  Tensor(Arena& arena, std::size_t elements);
  explicit Tensor(BufferRef buffer, std::size_t elements) : buffer_(std::move(buffer)), elements_(elements) {}

  bool empty() const { return buffer_ == nullptr; }
  std::size_t size() const { return elements_; }
  float* data() { return reinterpret_cast<float*>(buffer_->data()); }
  const float* data() const { return reinterpret_cast<const float*>(buffer_->data()); }
  std::span<float> span() { return {data(), elements_}; }
  std::span<const float> span() const { return {data(), elements_}; }
  const BufferRef& buffer() const { return buffer_; }
  void reset() { buffer_.reset(), elements_ = 0; }

 private:
  BufferRef buffer_;
  std::size_t elements_ = 0;
};

}  // namespace stagecraft
