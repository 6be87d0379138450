// Stand-ins for the world around devices and channels. Thread promise: any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "gpu/clock.hpp"
#include "gpu/stream.hpp"

namespace stagecraft::test {

/// A clock that stands until it is moved.
class FakeClock final : public Clock {
 public:
  Instant now() const override { return Instant{now_.load()}; }
  void set(Instant now) { now_ = now.count(); }
  void advance(Duration by) { now_ += by.count(); }

 private:
  std::atomic<Instant::rep> now_ = 0;
};

/// Keeps every completion with its delay, in the order in which they were reported.
class CompletionLog final : public Completions {
 public:
  struct Entry {
    Completion completion;
    Duration delay{};
  };

  void report(const Completion& completion, Duration delay) override {
    std::lock_guard guard(mutex_);
    entries_.push_back({completion, delay});
    changed_.notify_all();
  }
  /// All entries, once there are at least `count`.
  std::vector<Entry> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return entries_.size() >= count; });
    return entries_;
  }
  std::size_t size() {
    std::lock_guard guard(mutex_);
    return entries_.size();
  }
  Entry last() {
    std::lock_guard guard(mutex_);
    return entries_.back();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Entry> entries_;
};

}  // namespace stagecraft::test
