// What a stage tells the recorder and the monitor: by the dozen, because each message costs more than what it says.
// One owner: the stage actor.
#pragma once

#include <utility>
#include <vector>

#include "actors/doors.hpp"

namespace stagecraft {

class StageNotes {
 public:
  void wire(RecorderActor recorder, MonitorActor monitor) {
    recorder_ = std::move(recorder);
    monitor_ = std::move(monitor);
  }
  void add(Event event) {
    if (events_.empty()) events_.reserve(most_events + 1);
    events_.push_back(std::move(event));
  }
  void add(const Timing& timing) {
    if (timings_.empty()) timings_.reserve(most_events / 2);
    timings_.push_back(timing);
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
