// What a stage tells the recorder and the monitor: by the dozen, because each message costs more than what it says.
// One owner: the stage actor.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "actors/doors.hpp"
#include "actors/job.hpp"
#include "actors/stage_work.hpp"

namespace stagecraft {

class StageNotes {
 public:
  void wire(RecorderActor recorder, MonitorActor monitor) {
    recorder_ = std::move(recorder);
    monitor_ = std::move(monitor);
  }
  /// `skew`: how far the clock is off that stamps it.
  void add(Event event, Duration skew) {
    event.at += skew;
    event.start += skew;
    if (events_.empty()) events_.reserve(most_events + 1);
    events_.push_back(std::move(event));
  }
  /// An operator or a service that ran.
  void add(Place place, const RunningOperator& flight, const Completion& done, Duration skew) {
    if (timings_.empty()) timings_.reserve(most_events / 2);
    timings_.push_back(
        {place, flight.key, flight.op ? std::optional(flight.op->kind) : std::nullopt, done.ended - done.started});
    std::string service = flight.op ? "" : std::string(name_of(flight.service));
    add({EventKind::ran, done.ended, done.started, place, flight.key, flight.op, {}, std::move(service)}, skew);
  }
  /// Both ends of a tensor's way, told by the one who has it now.
  void add(const Job& job, Place place, const TensorMessage& x, Duration skew) {
    const bool forward = x.direction == Direction::forward;
    const Place from{job.stage_of({forward ? x.to.value - 1 : x.to.value + 1}), place.replica};
    const Operator op{forward ? OperatorKind::forward : OperatorKind::backward_input, x.to, x.micro_batch};
    add({EventKind::sent, x.sent, {}, from, x.key, op, x.direction, {}}, skew);
    add({EventKind::arrived, job.event_time(x.due), {}, place, x.key, op, x.direction, {}}, skew);
  }
  /// So many are waiting that they should go.
  bool full() const { return events_.size() >= most_events; }
  /// What was noted goes out, before anyone could miss it.
  template <class Self>
  void tell_all(Self* self) {
    if (!events_.empty()) tell(self, recorder_, Events{std::exchange(events_, {})});
    if (!timings_.empty()) tell(self, monitor_, Timings{std::exchange(timings_, {})});
  }

 private:
  static constexpr std::size_t most_events = 64;

  RecorderActor recorder_;
  MonitorActor monitor_;
  std::vector<Event> events_;
  std::vector<Timing> timings_;
};

}  // namespace stagecraft
