// Stands between what a device reports and the stage that waits for it: where faults strike, a completion is held, late
// or spoiled. Also tells what a stage's operators do. One owner: the stage actor.
#pragma once

#include <algorithm>
#include <limits>

#include "actors/doors.hpp"
#include "actors/job.hpp"
#include "actors/stage_work.hpp"

namespace stagecraft {

class DeviceWatch {
 public:
  DeviceWatch() = default;
  DeviceWatch(const Job& job, Place place) : world_(&job.world), place_(place) {}

  /// True: the completion comes again later. The board is asked once for each.
  template <class Self>
  bool withholds(Self* self, OperatorDone& x, RunningOperator& flight) {
    FaultBoard* faults = world_->faults();
    if (!faults || judged_ == x.completion.ticket) return false;
    const StageActor to{self};
    const DeviceVerdict verdict =
        faults->judge(place_, x.completion, flight.op && !flight.outcome->tensor.empty(), [x, to, world = world_] {
          OperatorDone later = x;
          later.completion.ended = std::max(later.completion.ended, world->now());
          tell_from_outside(to, later);
        });
    if (verdict.held) return true;
    judged_ = x.completion.ticket;
    if (verdict.out_of_memory) x.completion.out_of_memory = true;
    if (verdict.not_a_number) flight.outcome->tensor.data()[0] = std::numeric_limits<float>::quiet_NaN();
    if (verdict.extra.count() == 0) return false;
    x.completion.ended += verdict.extra;
    tell_after(self, verdict.extra, to, x);
    return true;
  }

  void tell(Iteration iteration, const Operator& op, bool started) const {
    RunEvent event = started ? RunEvent::backward_started : RunEvent::backward_done;
    if (op.kind == OperatorKind::forward) event = started ? RunEvent::forward_started : RunEvent::forward_done;
    if (op.kind == OperatorKind::backward_weight) event = started ? RunEvent::weight_started : RunEvent::weight_done;
    world_->tell({event, iteration, place_, op.micro_batch});
  }
  void tell(Iteration iteration, RunEvent event) const { world_->tell({event, iteration, place_, {}}); }

  /// How far the clock is off that stamps this stage's events.
  Duration skew() const { return world_->faults() ? world_->faults()->skew(place_) : Duration{}; }

 private:
  World* world_ = nullptr;
  Place place_;
  std::uint64_t judged_ = 0;  // the last completion that the board was asked about
};

}  // namespace stagecraft
