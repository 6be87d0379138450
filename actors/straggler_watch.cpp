#include "actors/straggler_watch.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace stagecraft {

namespace {

constexpr std::size_t most_gathered = 8;  // iterations

std::size_t kind_of(OperatorKind kind) {
  return kind == OperatorKind::forward ? 0 : kind == OperatorKind::backward_weight ? 2 : 1;
}

}  // namespace

StragglerWatch::StragglerWatch(const PipelineShape& shape, std::uint32_t replicas)
    : shape_(shape),
      replicas_(replicas),
      boundaries_(shape.total_chunks() - 1),
      detector_(std::size_t{replicas} * boundaries_, std::size_t{replicas} * shape.stages) {}

IterationSamples* StragglerWatch::of(Key key) {
  if (gathered_.size() >= most_gathered && !gathered_.contains(key.iteration)) return nullptr;
  Gathered& gathered = gathered_[key.iteration];
  if (key.epoch < gathered.epoch) return nullptr;
  if (key.epoch > gathered.epoch) {
    gathered.epoch = key.epoch;
    gathered.samples = {key.iteration, std::vector<LinkSamples>(std::size_t{replicas_} * boundaries_),
                        std::vector<StageSamples>(std::size_t{replicas_} * shape_.stages)};
  }
  return &gathered.samples;
}

void StragglerWatch::add(const Timing& x) {
  if (!x.kind) return;
  if (IterationSamples* samples = of(x.key))
    samples->stages[std::size_t{x.place.replica.value} * shape_.stages + x.place.stage.value]
        .operators[kind_of(*x.kind)]
        .push_back({x.time, {}});
}

void StragglerWatch::add(const LinkTimings& x) {
  if (IterationSamples* samples = of(x.key))
    samples->links[std::size_t{x.replica.value} * boundaries_ + x.boundary]
        .messages[static_cast<std::size_t>(x.direction)] = x.messages;
}

StragglerWatch::Found StragglerWatch::opened(const IterationOpened& x) {
  if (x.key.epoch > opened_.epoch) detector_.plan_changed();
  if (x.layout != layout_ && !layout_.empty())
    for (std::uint32_t s = 0; s < replicas_ * shape_.stages; ++s) detector_.forget_stage(s);
  layout_ = x.layout;
  opened_ = x.key;
  Found found;
  while (!gathered_.empty() && gathered_.begin()->first.value + 2 <= x.key.iteration.value) {
    const IterationSamples samples = std::move(gathered_.begin()->second.samples);
    gathered_.erase(gathered_.begin());
    if (samples.iteration <= looked_at_) continue;  // the job has gone back
    looked_at_ = samples.iteration;
    const StragglerFindings findings = detector_.step(samples);
    for (const StageFinding& finding : findings.stages) note(finding, found);
    for (const LinkFinding& finding : findings.links) note(finding, found);
  }
  return found;
}

void StragglerWatch::note(const StageFinding& finding, Found& found) const {
  StageFinding own = finding;
  if (own.stage) own.stage = *own.stage % shape_.stages;
  found.texts.push_back(to_text(own));
  if (finding.stage && replicas_ > 1)
    found.texts.back() += fmt::format(" (replica {})", *finding.stage / shape_.stages);
}

void StragglerWatch::note(const LinkFinding& finding, Found& found) {
  LinkFinding own = finding;
  own.link = finding.link % boundaries_;
  const StageId from = shape_.stage_of({own.link}), to = shape_.stage_of({own.link + 1});
  found.texts.push_back(fmt::format("{} (between stage {} and stage {} of replica {})", to_text(own), from.value,
                                    to.value, finding.link / boundaries_));
  if (finding.finding == Finding::clock_step) return;
  found.links = true;
  for (const Direction direction : {Direction::forward, Direction::backward}) {
    if (finding.direction && *finding.direction != direction) continue;
    const auto name = std::pair{finding.link, direction};
    // Faster than iterations: what nine of ten messages stay below.
    const Duration size = finding.finding == Finding::turned_volatile ? finding.spread.p90 : finding.size;
    const bool over = finding.finding == Finding::end || finding.finding == Finding::faster || size.count() <= 0;
    if (over) {
      slow_.erase(name);
    } else {
      const bool holds = finding.kind == DelayKind::occupancy;
      slow_[name] = {holds ? Duration{} : size, holds ? size : Duration{}};
    }
  }
}

void StragglerWatch::well(std::uint32_t boundary, Direction direction) {
  for (std::uint32_t r = 0; r < replicas_; ++r) slow_.erase({r * boundaries_ + boundary, direction});
}

std::vector<SlowLink> StragglerWatch::slow_links() const {
  std::map<std::pair<std::uint32_t, Direction>, Slow> worst;
  for (const auto& [name, slow] : slow_) {
    Slow& all = worst[{name.first % boundaries_, name.second}];
    all.latency = std::max(all.latency, slow.latency);
    all.occupancy = std::max(all.occupancy, slow.occupancy);
  }
  std::vector<SlowLink> links;
  for (const auto& [name, slow] : worst) links.push_back({name.first, name.second, slow.latency, slow.occupancy});
  return links;
}

}  // namespace stagecraft
