// What the tests of lanes share: an ear for a lane's events, and two ends in one process. Thread promise: any thread.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>

#include "transport/lane.hpp"

namespace stagecraft::test {

/// Far beyond what anything here takes, under a sanitizer on a machine that is busy.
constexpr auto patience = std::chrono::seconds(60);
/// What takes milliseconds on an idle machine, and for ever where a wait is not broken off.
constexpr double soon = 10.;

class LaneLog final : public LaneEvents {
 public:
  void connected() override {
    note([&] { is_connected_ = true; });
  }
  void arrived(LaneParcel parcel) override {
    std::unique_lock lock(mutex_);
    parcels_.push_back(std::move(parcel));
    changed_.notify_all();
    changed_.wait(lock, [&] { return !is_held_; });
  }
  void failed(std::string why) override {
    note([&] { failures_.push_back(std::move(why)); });
  }

  /// From now on arrived() comes back only after let_go().
  void hold() {
    note([&] { is_held_ = true; });
  }
  void let_go() {
    note([&] { is_held_ = false; });
  }
  bool wait_connected() {
    return wait([&] { return is_connected_; });
  }
  bool wait_parcels(std::size_t count) {
    return wait([&] { return parcels_.size() >= count; });
  }
  /// Why the lane failed; empty when it does not within the time.
  std::string wait_failure(std::chrono::nanoseconds time = patience) {
    wait([&] { return !failures_.empty(); }, time);
    const std::lock_guard lock(mutex_);
    return failures_.empty() ? "" : failures_.back();
  }
  std::size_t failures() const {
    return with<std::size_t>([&] { return failures_.size(); });
  }
  std::size_t count() const {
    return with<std::size_t>([&] { return parcels_.size(); });
  }
  std::vector<LaneParcel> parcels() const {
    return with<std::vector<LaneParcel>>([&] { return parcels_; });
  }
  void clear() {
    note([&] { parcels_.clear(); });
  }

 private:
  template <class T>
  T with(const std::function<T()>& read) const {
    const std::lock_guard lock(mutex_);
    return read();
  }
  void note(const std::function<void()>& change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  bool wait(const std::function<bool()>& done, std::chrono::nanoseconds time = patience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, done);
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<LaneParcel> parcels_;
  std::vector<std::string> failures_;
  bool is_connected_ = false, is_held_ = false;
};

inline LaneToken token_of(unsigned char seed) {
  LaneToken token{};
  token.fill(std::byte{seed});
  return token;
}

inline LaneOptions lane_options(int rank) {
  LaneOptions options;
  options.name = rank == 0 ? "left" : "right";
  options.listen = "127.0.0.1";
  options.rank = rank;
  options.token = token_of(7);
  options.limits = {Bytes{64 << 10}, Bytes{32 << 20}, 6, 4};
  options.connect_within = patience;
  options.memory = Arena::make(options.name, Bytes{});
  return options;
}

inline std::unique_ptr<Lane> make_lane(LaneOptions options, LaneEvents& events) {
  LaneResult made = make_gloo_lane(std::move(options), events);
  if (auto* lane = std::get_if<std::unique_ptr<Lane>>(&made)) return std::move(*lane);
  ADD_FAILURE() << std::get<std::string>(made);
  return nullptr;
}

/// Both ends of a lane.
struct LanePair {
  LanePair() : LanePair(lane_options(0), lane_options(1)) {}
  LanePair(const LaneOptions& left_options, const LaneOptions& right_options)
      : left(make_lane(left_options, left_log)), right(make_lane(right_options, right_log)) {}

  void connect() {
    left->connect(right->address());
    right->connect(left->address());
  }
  bool open() {
    connect();
    return left_log.wait_connected() && right_log.wait_connected();
  }

  LaneLog left_log, right_log;
  std::unique_ptr<Lane> left, right;
};

/// Seconds that something takes.
inline double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace stagecraft::test
