#include "planning/detector/link_reading.hpp"

#include <algorithm>

#include "planning/detector/statistics.hpp"

namespace stagecraft {

namespace {

constexpr std::size_t fewest = 4;      // messages or gaps that a number is made of
constexpr double queued_within = 1.1;  // of a message's own delay: it arrived right after the one before it

double ns(Duration d) { return static_cast<double>(d.count()); }

// How many times the reference a message is. Without bytes all are alike.
double relative(const MessageStamps& message, double reference) {
  const auto bytes = static_cast<double>(message.bytes.value);
  return bytes > 0 && reference > 0 ? bytes / reference : 1;
}

// What its own bytes and the queue before it add to a tensor.
std::optional<double> beyond_announcement(const MessageStamps& message) {
  if (!message.announcement) return std::nullopt;
  return ns(message.arrived - message.handed_over) - ns(message.announcement->arrived - message.announcement->sent);
}

std::optional<double> median_of(std::vector<double> values) {
  if (values.size() < fewest) return std::nullopt;
  return robust::median(robust::sorted(std::move(values)));
}

// A lone message can't tell occupancy from latency, and one that waited shows the queue. Two that stood in the queue
// arrive one service apart.
std::optional<double> service_of(const std::vector<MessageStamps>& messages, double reference) {
  std::vector<double> gaps;
  for (std::size_t i = 1; i < messages.size(); ++i) {
    const auto beyond = beyond_announcement(messages[i]);
    const double gap = ns(messages[i].arrived - messages[i - 1].arrived);
    if (beyond && gap > 0 && gap <= queued_within * *beyond) gaps.push_back(gap / relative(messages[i], reference));
  }
  return median_of(std::move(gaps));
}

double lower_quartile(std::vector<double> values) { return robust::quantile(robust::sorted(std::move(values)), 0.25); }

// What queues show, else the lower quartile: most tensors may have waited.
std::optional<double> own_service(const std::vector<MessageStamps>& messages, double reference,
                                  const std::optional<double>& queued) {
  std::vector<double> terms;
  for (const MessageStamps& m : messages)
    if (const auto beyond = beyond_announcement(m)) terms.push_back(*beyond / relative(m, reference));
  if (queued || terms.size() < fewest) return queued;
  return lower_quartile(std::move(terms));
}

// How long each tensor has to wait for those before it, if the wire needs `service` for one (Lindley's recursion,
// 1952), and no longer than it can have waited.
std::vector<double> healthy_waits(const std::vector<MessageStamps>& messages, double reference, double service) {
  std::vector<double> waits;
  double free = 0;  // since the first was handed over
  for (const MessageStamps& m : messages) {
    const double now = ns(m.handed_over - messages.front().handed_over);
    const double own = std::max(0.0, service) * relative(m, reference);
    const double most = beyond_announcement(m).value_or(own) - own;
    waits.push_back(std::clamp(free - now, 0.0, std::max(0.0, most)));
    free = std::max(now, free) + own;
  }
  return waits;
}

}  // namespace

double reference_bytes(const std::vector<MessageStamps>& messages) {
  std::vector<double> bytes;
  for (const MessageStamps& m : messages) bytes.push_back(static_cast<double>(m.bytes.value));
  return bytes.empty() ? 0 : robust::median(robust::sorted(std::move(bytes)));
}

std::optional<LinkReading> read_link(Iteration at, const LinkSamples& samples, const HealthyLink& healthy) {
  LinkReading reading;
  reading.at = at;
  for (std::size_t d = 0; d < 2; ++d) {
    const std::vector<MessageStamps>& messages = samples.messages[d];
    const double reference = healthy.bytes[d];
    if (messages.size() < fewest) return std::nullopt;
    reading.service[d] = service_of(messages, reference);
    const double service =
        healthy.service[d] > 0 ? healthy.service[d] : own_service(messages, reference, reading.service[d]).value_or(0);
    const std::vector<double> waits = healthy_waits(messages, reference, service);
    std::vector<double> terms;
    for (std::size_t i = 0; i < messages.size(); ++i)
      if (const auto beyond = beyond_announcement(messages[i]))
        terms.push_back((*beyond - waits[i]) / relative(messages[i], reference));
    reading.size_term[d] = median_of(std::move(terms));
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const MessageStamps& m = messages[i];
      const double off = waits[i] + reading.size_term[d].value_or(0) * (relative(m, reference) - 1);
      reading.round_trips[d].push_back(ns(m.round_trip) - off);
      reading.one_ways[d].push_back(ns(m.arrived - m.handed_over) - off);
    }
    reading.round_trip[d] = lower_quartile(reading.round_trips[d]);
    reading.one_way[d] = lower_quartile(reading.one_ways[d]);
  }
  return reading;
}

}  // namespace stagecraft
