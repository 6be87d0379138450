#include "actors/busy_times.hpp"

#include <fmt/format.h>

#include <numeric>

#include "actors/messages.hpp"

namespace stagecraft {

namespace {

std::size_t column_of(const std::optional<OperatorKind>& kind) {
  if (!kind) return 3;
  return *kind == OperatorKind::forward ? 0 : *kind == OperatorKind::backward_weight ? 2 : 1;
}

}  // namespace

// What an aborted attempt told is dropped.
BusyTimes::Gathered& BusyTimes::of(Key key) {
  Gathered& gathered = iterations_[key.iteration];
  if (key > gathered.key) gathered = {key, {}, {}};
  return gathered;
}

void BusyTimes::add(const Timing& x) {
  if (x.key.iteration == Iteration{}) return;  // before the first one
  Gathered& gathered = of(x.key);
  if (gathered.key == x.key) gathered.rows[x.place].times[column_of(x.kind)] += x.time;
  while (iterations_.size() > kept) iterations_.erase(iterations_.begin());
}

void BusyTimes::opened(Key key, Instant now) { of(key).opened = now; }

WishAnswer BusyTimes::table(WishId wish) const {
  WishAnswer answer;
  answer.wish = wish;
  answer.text = "no iteration is over yet";
  for (auto at = iterations_.rbegin(); at != iterations_.rend(); ++at) {
    const auto next = iterations_.find({at->first.value + 1});
    if (next == iterations_.end() || !iterations_.contains({at->first.value + 2})) continue;
    const Duration whole = next->second.opened - at->second.opened;
    answer.iteration = at->first;
    answer.text = fmt::format("iteration {} took {}", at->first.value, format(whole));
    for (const auto& [place, row] : at->second.rows) {
      const Duration busy = std::accumulate(row.times.begin(), row.times.end(), Duration{});
      const auto percent = [&](Duration d) {
        return whole.count() > 0 ? 100 * static_cast<double>(d.count()) / static_cast<double>(whole.count()) : 0;
      };
      answer.rows.push_back(
          {.who = to_text(Member{.place = place}),
           .what = fmt::format("{:5.1f} % busy: forward {:.1f}, backward {:.1f}, weight gradient {:.1f}, else {:.1f}",
                               percent(busy), percent(row.times[0]), percent(row.times[1]), percent(row.times[2]),
                               percent(row.times[3])),
           .age = busy});
    }
    break;
  }
  return answer;
}

}  // namespace stagecraft
