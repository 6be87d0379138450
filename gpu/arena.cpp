#include "gpu/arena.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>
#include <utility>

namespace stagecraft {

namespace {

constexpr std::size_t alignment = 64;
constexpr std::size_t shelved_at_least = 1 << 20;  // bytes that may always lie idle

// Capacity classes: eight steps per power of two, so that micro-batches of slightly different lengths share blocks
// and at most an eighth of a block is slack.
std::size_t capacity_class(std::size_t size) {
  const std::size_t step = std::max(std::bit_floor(std::max<std::size_t>(size, 1)) / 8, alignment);
  return std::max<std::size_t>((size + step - 1) / step, 1) * step;
}

}  // namespace

Buffer::Buffer(Key, std::shared_ptr<Arena> arena, std::byte* data, std::size_t size, Bytes charged)
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
  return std::make_shared<Arena>(Key{}, std::move(name), limit);
}

Arena::~Arena() {
  for (auto& [capacity, shelf] : shelves_)
    for (auto* block : shelf.blocks) std::free(block);
}

BufferRef Arena::allocate(std::size_t size) { return allocate(size, Bytes{size}); }

BufferRef Arena::allocate(std::size_t size, Bytes charged) {
  const std::size_t capacity = capacity_class(size);
  std::byte* data = from_shelf(capacity);
  if (data == nullptr) data = static_cast<std::byte*>(std::aligned_alloc(alignment, capacity));
  if (data == nullptr) throw std::bad_alloc();
  charge(charged);
  return std::make_shared<Buffer>(Buffer::Key{}, shared_from_this(), data, size, charged);
}

std::byte* Arena::from_shelf(std::size_t capacity) {
  std::lock_guard guard(mutex_);
  Shelf& shelf = shelves_[capacity];
  shelf.last_use = ++uses_;
  if (shelf.blocks.empty()) return nullptr;
  std::byte* data = shelf.blocks.back();
  shelf.blocks.pop_back();
  shelved_ -= capacity;
  return data;
}

void Arena::charge(Bytes bytes) {
  const std::uint64_t now = used_.fetch_add(bytes.value) + bytes.value;
  std::uint64_t seen = peak_.load();
  while (now > seen && !peak_.compare_exchange_weak(seen, now)) {
  }
  if (limit_.value != 0 && now > limit_.value) overdrafts_.fetch_add(1);
}

void Arena::refund(Bytes bytes) { used_.fetch_sub(bytes.value); }

// Lengths vary, and with them the sizes in use: what lies idle is kept below half of what was ever needed at once.
void Arena::take_back(std::byte* data, std::size_t size) {
  const std::size_t capacity = capacity_class(size);
  std::lock_guard guard(mutex_);
  shelves_[capacity].blocks.push_back(data);
  shelved_ += capacity;
  while (shelved_ > std::max<std::size_t>(peak_.load() / 2, shelved_at_least)) clear_stalest_shelf();
}

void Arena::clear_stalest_shelf() {
  auto stalest = shelves_.end();
  for (auto it = shelves_.begin(); it != shelves_.end(); ++it)
    if (!it->second.blocks.empty() && (stalest == shelves_.end() || it->second.last_use < stalest->second.last_use))
      stalest = it;
  for (auto* block : stalest->second.blocks) std::free(block);
  shelved_ -= stalest->first * stalest->second.blocks.size();
  shelves_.erase(stalest);
}

Tensor::Tensor(Arena& arena, std::size_t elements)
    : buffer_(arena.allocate(elements * sizeof(float))), elements_(elements) {}

}  // namespace stagecraft
