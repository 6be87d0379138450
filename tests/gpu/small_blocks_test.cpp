// The operators new and delete of small objects: blocks come again, never to two owners, from whatever thread.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "planning/random.hpp"

namespace stagecraft::test {
namespace {

struct Block {
  unsigned char* data;
  std::size_t size;
  unsigned char mark;
  bool intact() const {
    for (std::size_t i = 0; i < size; ++i)
      if (data[i] != mark) return false;
    return true;
  }
};

Block take(std::uint64_t seed, std::uint64_t n) {
  const std::size_t size = keyed(seed, n) % (n % 50 == 0 ? 20'000 : 300);
  Block block{static_cast<unsigned char*>(::operator new(size)), size, static_cast<unsigned char>(keyed(seed, n, 1))};
  std::memset(block.data, block.mark, size);
  return block;
}
void give(const Block& block, bool with_size) {
  if (with_size) {
    ::operator delete(block.data, block.size);
  } else {
    ::operator delete(block.data);
  }
}

// Takes and frees at random; whatever is held must keep what was written to it. Returns what is still held.
std::vector<Block> storm(std::uint64_t seed, std::uint64_t& broken) {
  std::vector<Block> held;
  for (std::uint64_t n = 0; n < 50'000; ++n) {
    held.push_back(take(seed, n));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(held.back().data) % alignof(std::max_align_t), 0U);
    if (held.size() < 400) continue;
    std::swap(held[keyed(seed, n, 2) % held.size()], held.back());
    broken += !held.back().intact();
    give(held.back(), n % 2 == 0);
    held.pop_back();
  }
  return held;
}

TEST(SmallBlocks, belong_to_one_owner_at_a_time_also_when_another_thread_frees_them) {
  constexpr std::size_t threads = 4;
  std::vector<std::vector<Block>> left(threads);
  std::vector<std::uint64_t> broken(threads, 0);
  for (int round = 0; round < 2; ++round) {
    std::vector<std::thread> all;
    for (std::size_t t = 0; t < threads; ++t)
      all.emplace_back([&, t] {
        for (const Block& block : left[t]) {  // of the thread of the round before, which has ended
          broken[t] += !block.intact();
          give(block, false);
        }
        left[t] = storm(keyed(t, round), broken[t]);
      });
    for (std::thread& thread : all) thread.join();
  }
  for (std::size_t t = 0; t < threads; ++t) {
    EXPECT_EQ(broken[t], 0U);
    for (const Block& block : left[t]) give(block, true);
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(SmallBlocks, what_was_freed_last_comes_first_and_large_blocks_go_back) {
  void* first = ::operator new(100);
  ::operator delete(first, 100);
  void* again = ::operator new(97);  // of the same class
  EXPECT_EQ(again, first);
  ::operator delete(again);
  void* third = ::operator new(112);
  EXPECT_EQ(third, first);
  ::operator delete(third, 112);
}
#endif

}  // namespace
}  // namespace stagecraft::test
