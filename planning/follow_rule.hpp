// The dispatch rule `follow`: a stage keeps to its planned list while it is in time, and fills every wait with what
// fits. Pure; one owner; not thread-safe.
//
// When the head h of what is left of the list is ready, it runs. Else the first later operator q runs that is ready,
// that the caps let in front of everything it overtakes, and that passes the clock: not late (before the latest start
// of h), q must end by then, or by the time h's input is expected; late, q may start while that input is at least half
// of q away, or was due half of q ago. So an idle stage loses less than half an operator to a hold, a start delays h
// by at most half, and at zero delay nobody is later than planned. The caps hold, W stays in order, and what is left
// of the list stays executable, so nothing hangs under any delay.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "planning/problem.hpp"

namespace stagecraft {

/// What the plan knows of one operator of a list. Times since the iteration began. With all of them zero the rule is
/// work-conserving: whatever fits starts at once.
struct Pace {
  Duration latest_start{};  ///< that keeps the planned makespan with the planned order on every device
  Duration duration{};
  Duration producer{};  ///< how long the operator takes that gives its input
  bool operator==(const Pace&) const = default;
};

/// What a stage holds at one moment.
struct HeldCounts {
  std::uint32_t activations = 0, pending_weights = 0, held = 0;
};

class FollowRule {
 public:
  FollowRule() = default;
  explicit FollowRule(std::size_t operators) : started_(operators, false) {}

  /// An operator that may run now; or, if none may, when one may unless something happens before.
  struct Choice {
    std::optional<std::size_t> start;  ///< index into the list
    std::optional<Duration> wake;
  };
  struct View {
    const std::vector<Operator>& order;
    const std::vector<Pace>& paces;
    const StageCaps& caps;
    HeldCounts counts;
    Duration now;
  };
  /// `ready(op)`: its inputs are there and a W is the next of its chunk. `expected(op)`: when its input should be here,
  /// none if the operator that gives it has not begun.
  template <class Ready, class Expected>
  Choice choose(const View& view, const Ready& ready, const Expected& expected) const;

  void started(std::size_t index) {
    started_[index] = true;
    while (head_ < started_.size() && started_[head_]) ++head_;
  }
  /// Of what is left of the list.
  std::size_t head() const { return head_; }

 private:
  static constexpr std::size_t window = 64;  // operators of look-ahead

  std::vector<bool> started_;
  std::size_t head_ = 0;
};

namespace follow_detail {

/// The counts along a list, and the highest they get.
struct Level {
  HeldCounts now, peak;
  void note() {
    peak.activations = std::max(peak.activations, now.activations);
    peak.pending_weights = std::max(peak.pending_weights, now.pending_weights);
    peak.held = std::max(peak.held, now.held);
  }
  void play(OperatorKind kind) {
    switch (kind) {
      case OperatorKind::forward:
        ++now.activations, ++now.held;
        break;
      case OperatorKind::backward_input:
        --now.activations, ++now.pending_weights;
        break;
      case OperatorKind::backward_weight:
        --now.pending_weights, --now.held;
        break;
      case OperatorKind::backward:
        --now.activations, --now.held;
        break;
    }
    note();
  }
  bool lets(OperatorKind kind, const StageCaps& caps) const {
    if (kind == OperatorKind::forward)
      return (!caps.activations || peak.activations < *caps.activations) && (!caps.held || peak.held < *caps.held);
    return kind != OperatorKind::backward_input || !caps.pending_weights ||
           peak.pending_weights < *caps.pending_weights;
  }
};

/// When an operator of duration `d` may go in front of a head that waits: at `now` or later.
inline Duration passes_at(Duration now, Duration d, const Pace& head, std::optional<Duration> expected) {
  const Duration half = d / 2, late = head.latest_start;
  if (now < late && now + d <= std::max(late, expected.value_or(late))) return now;
  const Duration from = std::max(now, late);
  if (!expected) return 2 * head.producer >= d ? from : std::max(from, late + half);
  return 2 * (*expected - from) >= d ? from : std::max(from, *expected + half);
}

}  // namespace follow_detail

template <class Ready, class Expected>
FollowRule::Choice FollowRule::choose(const View& view, const Ready& ready, const Expected& expected) const {
  if (head_ == started_.size()) return {};
  if (ready(view.order[head_])) return {head_, std::nullopt};
  const std::optional<Duration> due = expected(view.order[head_]);
  follow_detail::Level level{view.counts, view.counts};
  level.play(view.order[head_].kind);
  Choice choice;
  std::size_t seen = 1;
  for (std::size_t i = head_ + 1; i < started_.size() && seen < window; ++i) {
    if (started_[i]) continue;
    ++seen;
    const Operator& op = view.order[i];
    if (ready(op) && level.lets(op.kind, view.caps)) {
      const Duration at = follow_detail::passes_at(view.now, view.paces[i].duration, view.paces[head_], due);
      if (at <= view.now) return {i, std::nullopt};
      if (!choice.wake || at < *choice.wake) choice.wake = at;
    }
    level.play(op.kind);
  }
  return choice;
}

}  // namespace stagecraft
