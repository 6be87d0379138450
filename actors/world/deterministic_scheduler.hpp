// The scheduler of the virtual world: one thread, a seeded order of actors, exact nanosecond timers.
//
// A CAF scheduler module. It runs one message of one actor at a time, chosen by the seed among the actors that have
// mail, and jumps to the next timer when none has. Two messages from one sender to one receiver keep their order.
#pragma once

#include <caf/scheduler/abstract_coordinator.hpp>

#include <cstdint>
#include <thread>
#include <vector>

#include "actors/caf.hpp"
#include "actors/world/virtual_clock.hpp"
#include "planning/random.hpp"

namespace stagecraft {

class DeterministicScheduler final : public caf::scheduler::abstract_coordinator {
 public:
  explicit DeterministicScheduler(caf::actor_system& system) : abstract_coordinator(system), draws_(0, "scheduler") {}
  static caf::actor_system::module* make(caf::actor_system& system, caf::detail::type_list<>);
  static DeterministicScheduler& of(caf::actor_system& system);

  void seed(std::uint64_t seed) { draws_ = Entropy(seed, "scheduler"); }
  std::chrono::nanoseconds now() const { return clock_.now().time_since_epoch(); }

  /// Runs one message of one actor. False when no actor has mail.
  bool step();
  /// Fires the timers of the present instant. False when there are none.
  bool fire_due() { return clock_.is_due() && clock_.advance(); }
  /// Jumps to the next instant with timers and fires all of it. False when there is none.
  bool advance() { return clock_.advance(); }
  /// Forgets all timers and runs what is left.
  void drain();
  std::size_t timers() const { return clock_.timers(); }
  std::uint64_t steps() const { return steps_; }

  bool detaches_utility_actors() const override { return false; }
  VirtualClock& clock() noexcept override { return clock_; }

 protected:
  void start() override;
  void stop() override { drain(); }
  void enqueue(caf::resumable* job) override { admit(job); }

 private:
  class Unit;
  void admit(caf::resumable* job);

  const std::thread::id home_ = std::this_thread::get_id();
  VirtualClock clock_;
  std::vector<caf::resumable*> ready_;
  std::uint64_t steps_ = 0;
  Entropy draws_;
};

}  // namespace stagecraft
