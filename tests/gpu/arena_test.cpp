#include "gpu/arena.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "planning/random.hpp"

namespace stagecraft {
namespace {

TEST(Arena, used_is_what_lives_and_peak_the_most_that_ever_did) {
  const auto arena = Arena::make("a", Bytes{});
  auto first = arena->allocate(100);
  auto second = arena->allocate(1000);
  EXPECT_EQ(arena->used(), Bytes{1100});
  first.reset();
  EXPECT_EQ(arena->used(), Bytes{1000});
  auto third = arena->allocate(50);
  EXPECT_EQ(arena->used(), Bytes{1050});
  EXPECT_EQ(arena->peak(), Bytes{1100});
  const auto fourth = arena->allocate(51);
  EXPECT_EQ(arena->peak(), Bytes{1101});
  second.reset(), third.reset();
  EXPECT_EQ(arena->used(), Bytes{51});
  EXPECT_EQ(arena->peak(), Bytes{1101});
  EXPECT_EQ(arena->name(), "a");
}

TEST(Arena, a_buffer_is_counted_once_however_many_handles_it_has) {
  const auto arena = Arena::make("a", Bytes{});
  Tensor one(*arena, 25), empty;
  Tensor two = one;
  EXPECT_EQ(arena->used(), Bytes{100});
  one.reset();
  EXPECT_TRUE(one.empty());
  EXPECT_EQ(one.size(), 0U);
  EXPECT_EQ(arena->used(), Bytes{100});
  EXPECT_EQ(two.size(), 25U);
  two = empty;
  EXPECT_EQ(arena->used(), Bytes{0});
}

TEST(Arena, what_is_charged_may_differ_from_what_is_held) {
  const auto arena = Arena::make("emulated", Bytes{});
  const auto buffer = arena->allocate(8, Bytes{64 << 20});
  EXPECT_EQ(buffer->size(), 8U);
  EXPECT_EQ(buffer->charged(), Bytes{64 << 20});
  EXPECT_EQ(arena->used(), Bytes{64 << 20});
  const auto nothing = arena->allocate(4096, Bytes{0});
  EXPECT_EQ(arena->peak(), Bytes{64 << 20});
}

TEST(Arena, a_buffer_that_moves_is_charged_to_its_receiver_alone) {
  const auto sender = Arena::make("sender", Bytes{}), receiver = Arena::make("receiver", Bytes{});
  auto stays = sender->allocate(10);
  auto moves = sender->allocate(8, Bytes{1000});
  const std::byte* data = moves->data();
  moves->charge_to(receiver);
  EXPECT_EQ(sender->used(), Bytes{10});
  EXPECT_EQ(receiver->used(), Bytes{1000});
  EXPECT_EQ(&moves->arena(), receiver.get());
  EXPECT_EQ(moves->data(), data);
  moves->charge_to(receiver);  // again: nothing changes, not even for a moment
  EXPECT_EQ(receiver->used(), Bytes{1000});
  EXPECT_EQ(receiver->peak(), Bytes{1000});
  moves.reset();
  EXPECT_EQ(receiver->used(), Bytes{0});
  EXPECT_EQ(sender->used(), Bytes{10});
  EXPECT_EQ(sender->peak(), Bytes{1010});
}

TEST(Arena, a_block_goes_home_when_its_last_handle_does) {
  const auto sender = Arena::make("sender", Bytes{});
  auto receiver = Arena::make("receiver", Bytes{});
  auto buffer = sender->allocate(4000);
  const std::byte* data = buffer->data();
  buffer->charge_to(receiver);
  receiver.reset();  // the buffer still needs it
  buffer.reset();
  EXPECT_EQ(sender->allocate(4000)->data(), data);
}

TEST(Arena, a_buffer_outlives_the_last_handle_of_its_arena) {
  auto arena = Arena::make("short", Bytes{});
  const std::weak_ptr<Arena> watch = arena;
  auto buffer = arena->allocate(640);
  arena.reset();
  EXPECT_FALSE(watch.expired());
  std::memset(buffer->data(), 1, buffer->size());
  buffer.reset();
  EXPECT_TRUE(watch.expired());
}

TEST(Arena, every_buffer_is_aligned_writable_and_its_own) {
  const auto arena = Arena::make("a", Bytes{});
  std::vector<BufferRef> alive;
  std::set<const std::byte*> blocks;
  for (std::size_t size = 0; size < 5000; size += 7) {
    alive.push_back(arena->allocate(size));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(alive.back()->data()) % 64, 0U) << size;
    std::memset(alive.back()->data(), static_cast<int>(size & 0xff), size);  // a sanitizer sees a short block
    EXPECT_TRUE(blocks.insert(alive.back()->data()).second) << size;
  }
  for (const BufferRef& b : alive)
    EXPECT_TRUE(std::all_of(b->data(), b->data() + b->size(),
                            [&](std::byte x) { return x == static_cast<std::byte>(b->size() & 0xff); }));
}

TEST(Arena, buffers_of_nearly_the_same_size_share_blocks) {
  const auto arena = Arena::make("a", Bytes{});
  const std::byte* data = arena->allocate(4000)->data();
  auto other = arena->allocate(4004);
  EXPECT_EQ(other->data(), data);
  std::memset(other->data(), 1, other->size());
  EXPECT_EQ(other->charged(), Bytes{4004});
  EXPECT_NE(arena->allocate(4004)->data(), data) << "it is in use";
}

// Allocates and frees `count` buffers of 1 B to 4 KiB with at most `most` alive, and adds their blocks to `blocks`.
void churn(Arena& arena, std::uint64_t seed, int count, std::size_t most, std::set<const std::byte*>& blocks) {
  Entropy draws(seed, "arena");
  std::deque<BufferRef> alive;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t magnitude = draws.below(13);
    alive.push_back(arena.allocate(1 + draws.below(std::uint64_t{1} << magnitude)));
    blocks.insert(alive.back()->data());
    if (alive.size() > most - draws.below(2)) alive.pop_front();
  }
}

TEST(Arena, a_hundred_thousand_buffers_of_many_sizes_live_in_few_blocks) {
  const auto arena = Arena::make("a", Bytes{});
  std::set<const std::byte*> blocks;
  constexpr std::size_t most = 8, classes = 8 + 8 * 3;  // up to 512 B, then eight per power of two up to 4 KiB
  churn(*arena, 1, 50'000, most, blocks);
  EXPECT_LE(blocks.size(), (most + 1) * classes);
  const std::size_t after_half = blocks.size();
  churn(*arena, 1, 50'000, most, blocks);
  EXPECT_EQ(blocks.size(), after_half) << "the same again takes no new block";
  EXPECT_EQ(arena->used(), Bytes{0});
}

TEST(Arena, going_over_the_limit_is_counted_not_refused) {
  const auto arena = Arena::make("small", Bytes{100});
  EXPECT_EQ(arena->limit(), Bytes{100});
  const auto full = arena->allocate(100);
  EXPECT_EQ(arena->overdrafts(), 0U);
  auto over = arena->allocate(1);
  ASSERT_NE(over, nullptr);
  EXPECT_EQ(arena->overdrafts(), 1U);
  over.reset();
  EXPECT_EQ(arena->overdrafts(), 1U);
  const auto again = arena->allocate(1);
  EXPECT_EQ(arena->overdrafts(), 2U);
}

TEST(Arena, a_received_buffer_can_go_over_the_limit_too) {
  const auto sender = Arena::make("sender", Bytes{}), receiver = Arena::make("receiver", Bytes{100});
  const auto buffer = sender->allocate(101);
  EXPECT_EQ(sender->overdrafts(), 0U) << "no limit was given";
  buffer->charge_to(receiver);
  EXPECT_EQ(receiver->overdrafts(), 1U);
}

// One thread allocates, writes its number, and frees, or passes the buffer on to the other through `mailbox`.
void work(const std::shared_ptr<Arena>& arena, int number, std::mutex& mutex, std::deque<BufferRef>& mailbox,
          std::atomic<int>& faults) {
  Entropy draws(static_cast<std::uint64_t>(number), "threads");
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t size = 1 + draws.below(3000);
    auto buffer = arena->allocate(size);
    std::memset(buffer->data(), number, size);
    if (std::any_of(buffer->data(), buffer->data() + size, [&](std::byte b) { return b != std::byte(number); }))
      ++faults;
    if (i % 16 != 0) continue;
    std::lock_guard guard(mutex);
    mailbox.push_back(std::move(buffer));
    if (mailbox.size() > 8) mailbox.pop_front();
  }
}

TEST(Arena, two_threads_share_it_without_losing_count) {
  const auto arena = Arena::make("shared", Bytes{3001});
  std::mutex mutex;
  std::deque<BufferRef> mailbox;
  std::atomic<int> faults = 0;
  std::thread one(work, std::cref(arena), 1, std::ref(mutex), std::ref(mailbox), std::ref(faults));
  std::thread two(work, std::cref(arena), 2, std::ref(mutex), std::ref(mailbox), std::ref(faults));
  one.join(), two.join();
  EXPECT_EQ(faults, 0) << "a block had two owners";
  Bytes left;
  for (const BufferRef& b : mailbox) left += b->charged();
  EXPECT_EQ(arena->used(), left);
  mailbox.clear();
  EXPECT_EQ(arena->used(), Bytes{0});
  EXPECT_LE(arena->peak(), Bytes{12 * 3000});
}

}  // namespace
}  // namespace stagecraft
