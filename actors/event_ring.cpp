#include "actors/event_ring.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "actors/messages.hpp"

namespace stagecraft {

namespace {

std::string text_of(const Event& event) {
  std::string text(name_of(event.kind));
  if (event.op) text += " " + to_text(*event.op);
  if (event.direction) text += *event.direction == Direction::forward ? " forward" : " backward";
  if (!event.text.empty()) text += (event.kind == EventKind::ran ? " " : ": ") + event.text;
  if (event.kind == EventKind::ran) text += " for " + format(event.at - event.start);
  return text;
}

}  // namespace

bool is_decision(const Event& event) {
  switch (event.kind) {
    case EventKind::planned:
    case EventKind::rerouted:
    case EventKind::migrated:
    case EventKind::lost:
    case EventKind::moved:
    case EventKind::begun_again:
    case EventKind::led:
    case EventKind::injected:
    case EventKind::paused:
    case EventKind::set:
    case EventKind::stopped:
      return true;
    default:
      return false;
  }
}

void EventRing::push(std::uint64_t number, const Event& event) {
  if (events_.size() < size_) return events_.push_back({number, event});
  events_[oldest_] = {number, event};
  oldest_ = (oldest_ + 1) % size_;
}

std::vector<Event> EventRing::all() const {
  std::vector<Event> all;
  all.reserve(events_.size());
  for (std::size_t n = events_.size(); n-- > 0;) all.push_back(newest(n).event);
  return all;
}

WishAnswer EventRing::find(const AskEvents& ask, Instant now) const {
  WishAnswer answer;
  answer.wish = ask.wish;
  for (std::size_t n = 0; n < events_.size() && answer.rows.size() < ask.most; ++n) {
    const auto& [number, event] = newest(n);
    if (number <= ask.after) break;
    const bool wanted =
        ask.of.empty() || (event.place && std::find(ask.of.begin(), ask.of.end(), *event.place) != ask.of.end());
    if (!wanted) continue;
    std::string who;
    if (event.place) who = to_text(Member{.place = *event.place});
    answer.rows.push_back({std::move(who), text_of(event), number, now - event.at, event.key.iteration});
  }
  std::reverse(answer.rows.begin(), answer.rows.end());
  answer.text = fmt::format("{} {}", answer.rows.size(), ask.decisions ? "decisions" : "events");
  return answer;
}

WishAnswer find_decisions(const EventRing& decisions, const EventRing& findings, const AskEvents& ask, Instant now) {
  AskEvents few = ask;
  few.most = std::max(ask.most / 2, 1U);
  WishAnswer answer = decisions.find(ask, now);
  const std::vector<AnswerRow> found = findings.find(few, now).rows;
  auto& rows = answer.rows;
  const std::size_t room = ask.most - std::min<std::size_t>(ask.most, found.size());
  if (rows.size() > room) rows.erase(rows.begin(), rows.end() - static_cast<std::ptrdiff_t>(room));
  rows.insert(rows.end(), found.begin(), found.end());
  std::sort(rows.begin(), rows.end(), [](const AnswerRow& a, const AnswerRow& b) { return a.number < b.number; });
  answer.text = fmt::format("{} decisions and what they were made from", rows.size());
  return answer;
}

}  // namespace stagecraft
