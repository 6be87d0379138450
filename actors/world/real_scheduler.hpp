// The scheduler of the real world: a few workers, and the threads of devices that have nothing to compute.
//
// A device whose operator has ended is awake anyway. It runs the actors that this concerns (its stage, links, recorder)
// itself, so an operator costs no wake-up of a worker. A worker is woken only when nobody else will look.
//
// A CAF scheduler module: one queue, first come first served. Thread promise: any thread.
#pragma once

#include <caf/detail/thread_safe_actor_clock.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "actors/caf.hpp"

namespace stagecraft {

class RealScheduler final : public caf::scheduler::abstract_coordinator {
 public:
  explicit RealScheduler(caf::actor_system& system) : abstract_coordinator(system) {}
  static caf::actor_system::module* make(caf::actor_system& system, caf::detail::type_list<>);
  static RealScheduler& of(caf::actor_system& system);

  /// Runs actors on the caller's thread until none has mail. Once `wanted_back` says so, it leaves after a few more,
  /// and wakes a worker for the rest. A thread that has called it promises to call it again after whatever it sends.
  void help(const std::function<bool()>& wanted_back);

  bool detaches_utility_actors() const override { return false; }
  caf::detail::thread_safe_actor_clock& clock() noexcept override { return clock_; }

 protected:
  void start() override;
  void stop() override;
  void enqueue(caf::resumable* job) override;

 private:
  class Unit;
  using Lock = std::unique_lock<std::mutex>;

  void work();
  void run_first(Lock& lock, Unit& unit);
  void wake_one();

  caf::detail::thread_safe_actor_clock clock_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<caf::resumable*> ready_;
  std::size_t looking_ = 0;  // threads that will look at `ready_` before they sleep
  std::size_t asleep_ = 0;   // workers that nobody has woken
  std::size_t woken_ = 0;    // wake-ups on their way; each already counts as looking
  bool stopping_ = false;
  std::vector<std::thread> workers_;
  std::thread timer_;
};

}  // namespace stagecraft
