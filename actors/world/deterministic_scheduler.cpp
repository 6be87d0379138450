#include "actors/world/deterministic_scheduler.hpp"

#include "actors/world/silent_printer.hpp"
#include "planning/bug.hpp"

namespace stagecraft {

class DeterministicScheduler::Unit final : public caf::execution_unit {
 public:
  explicit Unit(DeterministicScheduler& owner) : execution_unit(&owner.system()), owner_(owner) {}
  void exec_later(caf::resumable* job) override { owner_.admit(job); }

 private:
  DeterministicScheduler& owner_;
};

caf::actor_system::module* DeterministicScheduler::make(caf::actor_system& system, caf::detail::type_list<>) {
  return std::make_unique<DeterministicScheduler>(system).release();  // CAF owns its modules
}

// Asked for the time with every message, so without a dynamic cast: a virtual world loads no other scheduler.
DeterministicScheduler& DeterministicScheduler::of(caf::actor_system& system) {
  return static_cast<DeterministicScheduler&>(system.scheduler());
}

bool DeterministicScheduler::step() {
  if (ready_.empty()) return false;
  std::swap(ready_[draws_.below(ready_.size())], ready_.back());
  caf::resumable* job = ready_.back();
  ready_.pop_back();
  ++steps_;
  Unit unit(*this);
  switch (job->resume(&unit, 1)) {
    case caf::resumable::resume_later:
      ready_.push_back(job);
      break;
    case caf::resumable::shutdown_execution_unit:
      break;
    default:
      caf::intrusive_ptr_release(job);
  }
  return true;
}

void DeterministicScheduler::drain() {
  clock_.cancel_all();
  while (step()) {
  }
}

void DeterministicScheduler::start() {
  Unit unit(*this);
  utility_actors_[printer_id] = make_silent_printer(system(), unit);
}

// A detached, blocking or I/O actor would make the world depend on threads.
void DeterministicScheduler::admit(caf::resumable* job) {
  STAGECRAFT_ASSERT(std::this_thread::get_id() == home_, "a message from another thread reached the virtual world");
  ready_.push_back(job);
}

}  // namespace stagecraft
