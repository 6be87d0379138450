#include "actors/wait_chain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace stagecraft {

namespace {

// What keeps a place, and how far away that is.
struct Cause {
  Place first;
  std::size_t steps = 0;
};

// Whoever waits in a ring waits for its lowest member, which a lost message leaves waiting as well.
Cause cause_of(Place place, const std::map<Place, Explanation>& answers) {
  std::set<Place> passed;
  Place at = place;
  while (true) {
    if (!passed.insert(at).second) return {*passed.begin(), passed.size()};
    const auto answer = answers.find(at);
    if (answer == answers.end() || answer->second.waits_for.empty()) return {at, passed.size() - 1};
    at = {answer->second.waits_for.front(), place.replica};
  }
}

AnswerRow row_of(Place place, const std::map<Place, Explanation>& answers) {
  const auto answer = answers.find(place);
  if (answer == answers.end()) return {.who = to_text(Member{.place = place}), .what = "does not answer"};
  const Explanation& x = answer->second;
  std::string what = x.text;
  if (!x.waits_for.empty()) what += fmt::format(", which stage {} is to give", x.waits_for.front().value);
  return {.who = to_text(Member{.place = place}), .what = std::move(what), .age = std::max(x.busy, x.idle)};
}

}  // namespace

WaitChain wait_chain(const std::vector<Place>& places, const std::map<Place, Explanation>& answers) {
  std::map<Place, Cause> causes;
  std::map<Place, std::size_t> followers;
  for (const Place p : places) {
    causes[p] = cause_of(p, answers);
    ++followers[causes[p].first];
  }
  // The silent come first, then those for whom most wait, then those who have been at it longest.
  const auto rank = [&](Place p) {
    const Cause& cause = causes.at(p);
    const auto first = answers.find(cause.first);
    return std::tuple(first != answers.end(), -static_cast<std::ptrdiff_t>(followers.at(cause.first)),
                      first == answers.end() ? Duration{} : -first->second.busy, cause.first, cause.steps, p);
  };
  std::vector<Place> order = places;
  std::sort(order.begin(), order.end(), [&](Place a, Place b) { return rank(a) < rank(b); });
  WaitChain chain;
  for (const Place p : order) chain.rows.push_back(row_of(p, answers));
  const Explanation* answer = answers.contains(order.front()) ? &answers.at(order.front()) : nullptr;
  if (answer && !answer->waits_for.empty()) {
    chain.text = fmt::format(
        "{} and stage {} wait for each other: what one of them gave is held by the link between "
        "them, or lost",
        chain.rows.front().who, answer->waits_for.front().value);
    return chain;
  }
  const std::size_t waiting = followers.at(causes.at(order.front()).first) - 1;
  const AnswerRow& first = chain.rows.front();
  chain.text = fmt::format("{}: {}", first.who, first.what);
  if (waiting > 0) chain.text += fmt::format("; {} wait{} for it", waiting, waiting == 1 ? "s" : "");
  return chain;
}

}  // namespace stagecraft
