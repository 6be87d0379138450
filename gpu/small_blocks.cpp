// Memory for small objects: what a thread has freed is the first that it takes again, by size. Replaces the global
// operators new and delete; there is no header, as nobody has to ask for it.
//
// An actor runs for about a microsecond and lives on small objects: messages, nodes, handles. The system's allocator
// keeps seven freed blocks of a size at hand, and beyond that splits and merges blocks that no cache holds any more.
// Thread promise: any thread; a block may be freed by another thread than the one that took it.
#include <malloc.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

// The sanitizers bring allocators of their own, which see every block.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

constexpr std::size_t grain = 16, largest = 8192, classes = largest / grain + 1;
constexpr std::uint32_t kept = 256U << 10;  // bytes of one size that a thread may hold back

struct Freed {
  Freed* next;
};

// No constructor and no destructor, so that its use needs no look whether it is there.
struct Shelves {
  Freed* first[classes];
  std::uint32_t room[classes];  // blocks that may still come
  enum { unopened, open, closed } state;
};
constinit thread_local Shelves shelves{};

struct Closer {
  ~Closer() {
    shelves.state = Shelves::closed;
    for (std::size_t c = 0; c < classes; ++c) {
      shelves.room[c] = 0;
      while (Freed* block = shelves.first[c]) {
        shelves.first[c] = block->next;
        std::free(block);
      }
    }
  }
};

// With the first block that a thread frees.
void open() {
  if (shelves.state != Shelves::unopened) return;
  shelves.state = Shelves::open;
  for (std::size_t c = 1; c < classes; ++c) shelves.room[c] = kept / static_cast<std::uint32_t>(c * grain);
  static thread_local Closer closer;
  static_cast<void>(&closer);
}

void* take_new(std::size_t size) {
  for (;;) {
    if (void* block = std::malloc(size)) return block;
    if (const std::new_handler handler = std::get_new_handler()) {
      handler();
    } else {
      throw std::bad_alloc();
    }
  }
}

void* take(std::size_t size) {
  const std::size_t c = (size + grain - 1) / grain;
  if (c >= classes) [[unlikely]]
    return take_new(size);
  Freed* block = shelves.first[c];
  if (block == nullptr) [[unlikely]]
    return take_new(c * grain);
  shelves.first[c] = block->next;
  ++shelves.room[c];
  return block;
}

// `size`: at most what the block holds.
void give(void* block, std::size_t size) {
  const std::size_t c = size / grain;
  if (c >= classes || c == 0) return std::free(block);
  if (shelves.room[c] == 0) [[unlikely]] {
    open();
    if (shelves.room[c] == 0) return std::free(block);
  }
  --shelves.room[c];
  auto* freed = static_cast<Freed*>(block);
  freed->next = shelves.first[c];
  shelves.first[c] = freed;
}

}  // namespace

void* operator new(std::size_t size) { return take(size > 0 ? size : 1); }
void operator delete(void* block) noexcept {
  if (block != nullptr) give(block, malloc_usable_size(block));
}
void operator delete(void* block, std::size_t size) noexcept {
  if (block != nullptr) give(block, (size + grain - 1) / grain * grain);
}

#endif
