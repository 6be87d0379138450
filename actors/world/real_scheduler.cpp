#include "actors/world/real_scheduler.hpp"

#include <pthread.h>

#include "actors/world/silent_printer.hpp"

namespace stagecraft {

namespace {

// What a helper still does for others before it goes back to its own work: the actors of one operator's end.
constexpr std::size_t last_favours = 8;

// So many actors with mail are more than one thread should be left with: it may be in a long handler.
constexpr std::size_t backlog = 12;

// This thread helps after whatever it sends: nobody needs to be woken for that.
thread_local bool helps_soon = false;

}  // namespace

class RealScheduler::Unit final : public caf::execution_unit {
 public:
  explicit Unit(RealScheduler& owner) : execution_unit(&owner.system()), owner_(owner) {}
  void exec_later(caf::resumable* job) override { owner_.enqueue(job); }

 private:
  RealScheduler& owner_;
};

caf::actor_system::module* RealScheduler::make(caf::actor_system& system, caf::detail::type_list<>) {
  return std::make_unique<RealScheduler>(system).release();  // CAF owns its modules
}

RealScheduler& RealScheduler::of(caf::actor_system& system) { return dynamic_cast<RealScheduler&>(system.scheduler()); }

void RealScheduler::enqueue(caf::resumable* job) {
  const Lock lock(mutex_);
  ready_.push_back(job);
  if ((looking_ == 0 && !helps_soon) || ready_.size() > backlog) wake_one();
}

// The one that is woken counts as looking from now on, so that one wake-up is enough for many messages.
void RealScheduler::wake_one() {
  if (asleep_ == 0) return;
  --asleep_;
  ++looking_;
  ++woken_;
  wake_.notify_one();
}

void RealScheduler::run_first(Lock& lock, Unit& unit) {
  caf::resumable* job = ready_.front();
  ready_.pop_front();
  lock.unlock();
  const auto result = job->resume(&unit, max_throughput());
  if (result != caf::resumable::resume_later) caf::intrusive_ptr_release(job);
  lock.lock();
  if (result == caf::resumable::resume_later) ready_.push_back(job);
}

void RealScheduler::help(const std::function<bool()>& wanted_back) {
  helps_soon = true;
  Unit unit(*this);
  Lock lock(mutex_);
  ++looking_;
  for (std::size_t done = 0; !ready_.empty() && (done < last_favours || !wanted_back()); ++done) run_first(lock, unit);
  --looking_;
  if (!ready_.empty() && looking_ == 0) wake_one();
}

void RealScheduler::work() {
  Unit unit(*this);
  Lock lock(mutex_);
  ++looking_;
  while (!stopping_) {
    while (!ready_.empty()) run_first(lock, unit);
    --looking_;
    ++asleep_;
    wake_.wait(lock, [this] { return woken_ > 0 || stopping_; });
    if (stopping_) return;
    --woken_;
  }
}

void RealScheduler::start() {
  for (std::size_t i = 0; i < num_workers(); ++i) {
    workers_.emplace_back([this] { work(); });
    pthread_setname_np(workers_.back().native_handle(), "actors");
  }
  timer_ = std::thread([this] { clock_.run_dispatch_loop(); });
  pthread_setname_np(timer_.native_handle(), "timers");
  Unit unit(*this);
  utility_actors_[printer_id] = make_silent_printer(system(), unit);
}

void RealScheduler::stop() {
  {
    const Lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  clock_.cancel_dispatch_loop();
  timer_.join();
  for (caf::resumable* job : ready_) cleanup_and_release(job);
  ready_.clear();
}

}  // namespace stagecraft
