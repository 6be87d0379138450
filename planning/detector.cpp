#include "planning/detector.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "planning/bug.hpp"
#include "planning/detector/statistics.hpp"

namespace stagecraft {

namespace {

template <class Lists>
std::size_t longest(const Lists& lists) {
  std::size_t most = 0;
  for (const auto& list : lists) most = std::max(most, list.size());
  return most;
}

template <class Lists>
void append(Lists& to, const Lists& from) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i].insert(to[i].end(), from[i].begin(), from[i].end());
}

}  // namespace

StragglerDetector::StragglerDetector(std::size_t links, std::size_t stages, const DetectorSettings& settings) {
  set(settings);
  for (std::uint32_t l = 0; l < links; ++l) links_.emplace_back(l);
  for (std::uint32_t s = 0; s < stages; ++s) stages_.emplace_back(s);
}

void StragglerDetector::set(const DetectorSettings& settings) {
  const auto wrong = complaint(settings);
  STAGECRAFT_ASSERT(!wrong, "settings of the detector: {}", *wrong);
  settings_ = settings;
}

void StragglerDetector::forget_link(std::uint32_t link) { links_.at(link) = LinkDetector(link); }
void StragglerDetector::forget_stage(std::uint32_t stage) { stages_.at(stage) = StageDetector(stage); }

Spread<Duration> StragglerDetector::spread(std::uint32_t link, Direction direction, Iteration since) const {
  return links_.at(link).spread(direction, since);
}
Spread<double> StragglerDetector::spread(std::uint32_t stage, Iteration since) const {
  return stages_.at(stage).spread(since);
}

// Adds to the block; true once that is large enough to be looked at.
bool StragglerDetector::gather(const IterationSamples& samples) {
  STAGECRAFT_ASSERT(samples.links.size() == links_.size() && samples.stages.size() == stages_.size(),
                    "samples of {} links and {} stages instead of {} and {}", samples.links.size(),
                    samples.stages.size(), links_.size(), stages_.size());
  STAGECRAFT_ASSERT(samples.iteration > last_ || last_ == Iteration{}, "iteration {} after {}", samples.iteration.value,
                    last_.value);
  last_ = samples.iteration;
  if (block_.links.empty() && block_.stages.empty()) {
    block_ = samples;
  } else {
    for (std::size_t l = 0; l < links_.size(); ++l) append(block_.links[l].messages, samples.links[l].messages);
    for (std::size_t s = 0; s < stages_.size(); ++s) append(block_.stages[s].operators, samples.stages[s].operators);
  }
  std::size_t most = 0;
  for (const LinkSamples& link : block_.links) most = std::max(most, longest(link.messages));
  for (const StageSamples& stage : block_.stages) most = std::max(most, longest(stage.operators));
  return most >= settings_.smallest_block;
}

StragglerFindings StragglerDetector::step(const IterationSamples& samples) {
  StragglerFindings events;
  if (!gather(samples)) return events;
  const Look look{block_.iteration, last_, held_ > 0, settings_, events};
  if (held_ > 0) --held_;
  look_at_stages(look);
  for (std::size_t l = 0; l < links_.size(); ++l) links_[l].step(block_.links[l], operator_time_, look);
  block_ = {};
  return events;
}

void StragglerDetector::look_at_stages(const Look& look) {
  std::vector<StageReading> readings;
  for (const StageSamples& stage : block_.stages) readings.push_back(read_stage(stage));
  const std::array<double, 3> common = common_of(readings, look);
  std::vector<double> times;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    stages_[s].step(readings[s], common, look);
    if (const auto time = stages_[s].healthy_time(readings[s])) times.push_back(*time);
  }
  if (!times.empty()) operator_time_ = robust::median(robust::sorted(std::move(times)));
}

// What the median stage is above healthy, per kind of operator, where there are enough stages to have one and it is
// worth anything: longer sequences, a cap on power. It is judged like a stage of its own.
std::array<double, 3> StragglerDetector::common_of(const std::vector<StageReading>& readings, const Look& look) {
  constexpr std::size_t fewest = 4;
  StageReading all;
  std::array<double, 3> common{};
  for (std::size_t q = 0; q < 3; ++q) {
    std::vector<double> excess;
    for (std::size_t s = 0; s < stages_.size(); ++s)
      if (const auto e = stages_[s].excess(q, readings[s])) excess.push_back(*e);
    if (excess.size() < fewest) continue;
    excess = robust::sorted(std::move(excess));
    // Of two in the middle the one that is nearer to healthy: half the stages are not all of them.
    const double low = excess[(excess.size() - 1) / 2], high = excess[excess.size() / 2];
    const double middle = std::abs(low) < std::abs(high) ? low : high;
    if (std::abs(middle) > settings_.common) common[q] = middle;
    all.midmeans[q] = middle;
  }
  all_.step(all, {}, look);
  return common;
}

}  // namespace stagecraft
