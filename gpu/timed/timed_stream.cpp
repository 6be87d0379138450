#include "gpu/timed/timed_stream.hpp"

#include <algorithm>
#include <vector>

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
    if (exact && (!pending_.empty() || (keyed(seed_, work.ticket) & 1) == 0)) {  // never before the one ahead of it
      pending_.emplace_back(work.ticket, std::move(work.body));
    } else {
      work.body();
    }
    const Completion done{work.ticket, start, free_, {}, false};
    completions_.report(done, std::max(free_ - clock_.now(), Duration{}));
  }

  void retire(std::uint64_t ticket) override {
    const auto it = std::find_if(pending_.begin(), pending_.end(), [&](const auto& p) { return p.first == ticket; });
    if (it == pending_.end()) return;
    const auto body = std::move(it->second);
    pending_.erase(it);
    body();
  }

 private:
  TimerKind timers_;
  std::uint64_t seed_;
  const Clock& clock_;
  Completions& completions_;
  Instant free_{};
  std::vector<std::pair<std::uint64_t, std::function<void()>>> pending_;  // few: owners wait for one at a time
};

}  // namespace

std::unique_ptr<Stream> make_timed_stream(TimerKind timers, std::uint64_t seed, const Clock& clock,
                                          Completions& completions) {
  return std::make_unique<TimedStream>(timers, seed, clock, completions);
}

}  // namespace stagecraft
