#include "gpu/timed/timed_stream.hpp"

#include <algorithm>
#include <map>

#include "planning/random.hpp"

namespace stagecraft {

namespace {

class TimedStream final : public Stream {
 public:
  TimedStream(TimerKind timers, std::uint64_t seed, const Clock& clock, Completions& completions)
      : timers_(timers), seed_(seed), clock_(clock), completions_(completions) {}

  void submit(Work work) override {
    const bool exact = timers_ == TimerKind::exact;
    Instant start = std::max(work.not_before, free_);
    if (exact || start == Instant{}) start = std::max(start, clock_.now());
    free_ = start + work.cost;
    if (exact && (keyed(seed_, work.ticket) & 1) == 0) {
      pending_.emplace(work.ticket, std::move(work.body));
    } else {
      work.body();
    }
    const Completion done{work.ticket, start, free_, {}, false};
    completions_.report(done, std::max(free_ - clock_.now(), Duration{}));
  }

  void retire(std::uint64_t ticket) override {
    if (auto node = pending_.extract(ticket)) node.mapped()();
  }

 private:
  TimerKind timers_;
  std::uint64_t seed_;
  const Clock& clock_;
  Completions& completions_;
  Instant free_{};
  std::map<std::uint64_t, std::function<void()>> pending_;
};

}  // namespace

std::unique_ptr<Stream> make_timed_stream(TimerKind timers, std::uint64_t seed, const Clock& clock,
                                          Completions& completions) {
  return std::make_unique<TimedStream>(timers, seed, clock, completions);
}

}  // namespace stagecraft
