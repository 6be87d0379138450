#include "gpu/arena.hpp"

#include <bit>
#include <cstdlib>
#include <new>
#include <utility>

namespace stagecraft {

namespace {

constexpr std::size_t alignment = 64;

// Capacity classes: eight steps per power of two, so that micro-batches of slightly different lengths share blocks
// and at most an eighth of a block is slack.
std::size_t capacity_class(std::size_t size) {
  if (size <= 8 * alignment) return (size + alignment - 1) / alignment * alignment + (size == 0 ? alignment : 0);
  const std::size_t step = std::bit_floor(size) / 8;
  return (size + step - 1) / step * step;
}

}  // namespace

Buffer::Buffer(std::shared_ptr<Arena> arena, std::byte* data, std::size_t size, Bytes charged)
    : home_(arena), charged_to_(std::move(arena)), data_(data), size_(size), charged_(charged) {}

Buffer::~Buffer() {
  charged_to_->refund(charged_);
  home_->take_back(data_, size_);
}

void Buffer::charge_to(std::shared_ptr<Arena> arena) {
  if (arena == charged_to_) return;
  arena->charge(charged_);
  charged_to_->refund(charged_);
  charged_to_ = std::move(arena);
}

std::shared_ptr<Arena> Arena::make(std::string name, Bytes limit) {
  return std::shared_ptr<Arena>(new Arena(std::move(name), limit));
}

Arena::~Arena() {
  for (auto& [capacity, blocks] : free_)
    for (auto* block : blocks) std::free(block);
}

BufferRef Arena::allocate(std::size_t size) { return allocate(size, Bytes{size}); }

BufferRef Arena::allocate(std::size_t size, Bytes charged) {
  const std::size_t capacity = capacity_class(size);
  std::byte* data = nullptr;
  {
    std::lock_guard guard(mutex_);
    if (auto it = free_.find(capacity); it != free_.end() && !it->second.empty()) {
      data = it->second.back();
      it->second.pop_back();
    }
  }
  if (data == nullptr)
    data = static_cast<std::byte*>(std::aligned_alloc(alignment, (capacity + alignment - 1) / alignment * alignment));
  if (data == nullptr) throw std::bad_alloc();
  charge(charged);
  return BufferRef(new Buffer(shared_from_this(), data, size, charged));
}

void Arena::charge(Bytes bytes) {
  const std::uint64_t now = used_.fetch_add(bytes.value) + bytes.value;
  std::uint64_t seen = peak_.load();
  while (now > seen && !peak_.compare_exchange_weak(seen, now)) {
  }
  if (limit_.value != 0 && now > limit_.value) overdrafts_.fetch_add(1);
}

void Arena::refund(Bytes bytes) { used_.fetch_sub(bytes.value); }

void Arena::take_back(std::byte* data, std::size_t size) {
  std::lock_guard guard(mutex_);
  free_[capacity_class(size)].push_back(data);
}

Tensor::Tensor(Arena& arena, std::size_t elements)
    : buffer_(arena.allocate(elements * sizeof(float))), elements_(elements) {}

}  // namespace stagecraft
