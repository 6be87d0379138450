#include "tests/planning/detector_traces.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "planning/bug.hpp"

namespace stagecraft::traces {

namespace {

constexpr std::uint64_t golden = 0x9e3779b97f4a7c15ULL;
constexpr double normal_99 = 2.3263478740408408;  // 99 % of normal draws are below

std::uint64_t finalise(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

std::int64_t ns(double ms) { return std::llround(ms * 1e6); }

FaultShape shape_of(const nlohmann::json& record) {
  FaultShape shape;
  const auto type = record.value("type", std::string("const"));
  using Kind = FaultShape::Kind;
  const std::pair<const char*, Kind> kinds[] = {{"const", Kind::constant},    {"ramp", Kind::ramp},
                                                {"periodic", Kind::periodic}, {"burst", Kind::burst},
                                                {"normal", Kind::normal},     {"lognormal", Kind::lognormal}};
  const auto* found = std::find_if(std::begin(kinds), std::end(kinds), [&](const auto& k) { return type == k.first; });
  STAGECRAFT_ASSERT(found != std::end(kinds), "shape {}", type);
  shape.kind = found->second;
  shape.over = record.value("over", 0.0);
  shape.on = record.value("on", 0.0);
  shape.off = record.value("off", 0.0);
  shape.mean = record.value("mean", 0.0);
  shape.sd = record.value("sd", 0.0);
  shape.p50 = record.value("p50", 0.0);
  shape.p99 = record.value("p99", 0.0);
  shape.shortest = record.value("lo", 0.0);
  shape.longest = record.value("hi", 0.0);
  return shape;
}

// A network card is the directions of two links that leave its node, or come to it.
void add_lanes(Fault& fault, const nlohmann::json& record, std::uint32_t stages) {
  const std::string direction = record.value("dir", "both");
  const auto add = [&](std::int64_t link, std::size_t d) {
    if (link >= 0 && link < std::int64_t{stages} - 1) fault.lanes.emplace_back(static_cast<std::uint32_t>(link), d);
  };
  if (record["kind"] == "nic") {
    const std::int64_t node = record["node"];
    if (direction != "in") add(node, 0), add(node - 1, 1);
    if (direction != "out") add(node - 1, 0), add(node, 1);
    return;
  }
  if (direction != "up") add(record["link"], 0);
  if (direction != "down") add(record["link"], 1);
}

Fault fault_of(const nlohmann::json& record, std::uint32_t stages) {
  Fault fault;
  const std::string kind = record["kind"];
  fault.from = record.value("from", 0.0);
  fault.to = record.value("to", 1e9);
  if (record.contains("shape")) fault.shape = shape_of(record["shape"]);
  if (kind == "clock_step") {
    fault.kind = Fault::Kind::clock_step;
    fault.node = record["node"];
    fault.size = record["by"];
  } else if (kind == "stage") {
    fault.kind = Fault::Kind::stage;
    fault.size = record["factor"].get<double>() - 1;
    for (std::uint32_t s = 0; s < stages; ++s)
      if (record["stage"] == "all" || record["stage"] == s) fault.stages.push_back(s);
    const std::string which = record.value("kinds", "FBW");
    for (std::size_t q = 0; q < 3; ++q) fault.operators[q] = which.find("FBW"[q]) != std::string::npos;
  } else {
    fault.kind = kind == "bandwidth"   ? Fault::Kind::bandwidth
                 : kind == "occupancy" ? Fault::Kind::occupancy
                                       : Fault::Kind::latency;
    fault.size = record[kind == "bandwidth" ? "factor" : "add"];
    add_lanes(fault, record, stages);
  }
  return fault;
}

}  // namespace

Parameters parameters_of(const nlohmann::json& record) {
  Parameters p;
  const auto read = [&](const char* name, auto& value) {
    if (record.contains(name)) record[name].get_to(value);
  };
  read("seed", p.seed);
  read("stages", p.stages);
  read("micro", p.micro_batches);
  read("iterations", p.iterations);
  read("period", p.period);
  read("op", p.operators);
  read("cv", p.variation);
  read("corr", p.shared);
  read("lat", p.latency);
  read("jitter", p.jitter);
  read("bytes", p.bytes);
  read("spread", p.spread);
  read("gbytes_per_s", p.gbytes_per_s);
  read("ack_lat", p.ack_latency);
  read("turn", p.turnaround);
  read("ppm", p.ppm);
  read("offset", p.offset);
  read("announce", p.announcements);
  if (record.contains("outlier")) p.outliers = record["outlier"][0], p.outlier_factor = record["outlier"][1];
  if (record.contains("spike")) p.spikes = record["spike"][0], p.spike = record["spike"][1];
  if (record.contains("ack")) p.ack_over_link = record["ack"] == "link";
  if (record.contains("nodes") && !record["nodes"].is_null()) record["nodes"].get_to(p.nodes);
  if (record.contains("faults"))
    for (const auto& fault : record["faults"]) p.faults.push_back(fault_of(fault, p.stages));
  return p;
}

Draws::Draws(std::uint64_t seed, std::initializer_list<std::uint64_t> keys) : state_(finalise(seed + golden)) {
  for (const std::uint64_t key : keys) state_ = finalise(state_ + golden * (key + 1));
}

double Draws::uniform() {
  state_ += golden;
  return (static_cast<double>(finalise(state_) >> 11) + 0.5) * 0x1p-53;
}

double Draws::normal() {
  const double radius = std::sqrt(-2 * std::log(uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

double Draws::exponential(double mean) { return -mean * std::log(uniform()); }

Trace::Trace(Parameters parameters) : p_(std::move(parameters)) {
  if (p_.nodes.empty())
    for (std::uint32_t s = 0; s < p_.stages; ++s) p_.nodes.push_back(s);
  const std::size_t nodes = *std::max_element(p_.nodes.begin(), p_.nodes.end()) + 1;
  Draws draws(p_.seed, {1});
  for (std::size_t n = 0; n < nodes; ++n) offsets_.push_back((2 * draws.uniform() - 1) * p_.offset);
  for (std::size_t n = 0; n < nodes; ++n) ppm_.push_back((2 * draws.uniform() - 1) * p_.ppm);
  for (std::size_t f = 0; f < p_.faults.size(); ++f) courses_.push_back(course_of(f));
  free_.resize(p_.stages - 1);
}

Trace::Course Trace::course_of(std::size_t fault) const {
  const Fault& f = p_.faults[fault];
  const FaultShape& shape = f.shape;
  Course course;
  using Kind = FaultShape::Kind;
  if (shape.kind == Kind::constant || shape.kind == Kind::ramp || shape.kind == Kind::periodic) return course;
  Draws draws(p_.seed, {9, fault});
  const double end = std::min(f.to, p_.iterations + 1.0) * p_.period;
  bool on = true;
  for (double at = f.from * p_.period; at < end;) {
    course.times.push_back(at);
    if (shape.kind == Kind::burst) {
      course.values.push_back(on ? 1 : 0);
      at += draws.exponential(on ? shape.on : shape.off);
      on = !on;
      continue;
    }
    const double draw = draws.normal();
    course.values.push_back(shape.kind == Kind::normal
                                ? std::max(0.0, shape.mean + shape.sd * draw)
                                : shape.p50 * std::exp(draw * std::log(shape.p99 / shape.p50) / normal_99));
    at += shape.shortest + (shape.longest - shape.shortest) * draws.uniform();
  }
  return course;
}

double Trace::value(std::size_t fault, double at) const {
  const Fault& f = p_.faults[fault];
  const double from = f.from * p_.period;
  if (at < from || at >= f.to * p_.period) return 0;
  switch (f.shape.kind) {
    case FaultShape::Kind::constant:
      return 1;
    case FaultShape::Kind::ramp:
      return std::min(1.0, (at - from) / (f.shape.over * p_.period));
    case FaultShape::Kind::periodic:
      return std::fmod(at - from, f.shape.on + f.shape.off) < f.shape.on ? 1 : 0;
    default:
      break;
  }
  const Course& course = courses_[fault];
  const auto after = std::upper_bound(course.times.begin(), course.times.end(), at);
  return course.values[static_cast<std::size_t>(after - course.times.begin()) - 1];
}

double Trace::clock(std::uint32_t node, double at) const {
  double reads = at + offsets_[node] + ppm_[node] * 1e-6 * at;
  for (const Fault& f : p_.faults)
    if (f.kind == Fault::Kind::clock_step && f.node == node && at >= f.from * p_.period) reads += f.size;
  return reads;
}

// A warm-up of forwards one after the other, then one of each kind in turn.
double Trace::forward_start(std::uint32_t stage, std::uint32_t micro_batch) const {
  const auto [f, b, w] = p_.operators;
  const std::uint32_t warmup = 2 * (p_.stages - 1 - stage) + 1;
  const double begin = iteration_ * p_.period + stage * f;
  return micro_batch < warmup ? begin + micro_batch * f : begin + warmup * f + (micro_batch - warmup) * (f + b + w);
}

double Trace::backward_start(std::uint32_t stage, std::uint32_t micro_batch) const {
  const auto [f, b, w] = p_.operators;
  return iteration_ * p_.period + p_.stages * f + (p_.stages - 1 - stage) * b + micro_batch * (f + b + w);
}

std::vector<OperatorSample> Trace::operators(std::uint32_t stage, std::size_t kind) const {
  const double variance = std::log1p(p_.variation * p_.variation), sigma = std::sqrt(variance);
  Draws draws(p_.seed, {2, iteration_, stage, kind});
  const double common = draws.normal();
  std::vector<OperatorSample> samples;
  for (std::uint32_t m = 0; m < p_.micro_batches; ++m) {
    const double at = kind == 0   ? forward_start(stage, m)
                      : kind == 1 ? backward_start(stage, m)
                                  : backward_start(stage, m) + p_.operators[1];
    double factor = 1;
    for (std::size_t i = 0; i < p_.faults.size(); ++i) {
      const Fault& f = p_.faults[i];
      if (f.kind != Fault::Kind::stage || !f.operators[kind]) continue;
      if (std::find(f.stages.begin(), f.stages.end(), stage) != f.stages.end()) factor *= 1 + f.size * value(i, at);
    }
    const double noise = std::sqrt(p_.shared) * common + std::sqrt(1 - p_.shared) * draws.normal();
    double time = p_.operators[kind] * factor * std::exp(sigma * noise - variance / 2);
    if (draws.uniform() < p_.outliers) time *= p_.outlier_factor;
    samples.push_back({Duration(ns(time))});
  }
  return samples;
}

double Trace::latency(std::uint32_t link, std::size_t direction, double at) const {
  double sum = p_.latency;
  for (std::size_t i = 0; i < p_.faults.size(); ++i) {
    const Fault& f = p_.faults[i];
    if (f.kind != Fault::Kind::latency) continue;
    for (const auto& lane : f.lanes)
      if (lane == std::pair{link, direction}) sum += f.size * value(i, at);
  }
  return sum;
}

double Trace::service(std::uint32_t link, std::size_t direction, double at, double bytes) const {
  double time = bytes / (p_.gbytes_per_s * 1e6);
  for (const auto kind : {Fault::Kind::bandwidth, Fault::Kind::occupancy}) {
    for (std::size_t i = 0; i < p_.faults.size(); ++i) {
      const Fault& f = p_.faults[i];
      if (f.kind != kind) continue;
      for (const auto& lane : f.lanes) {
        if (lane != std::pair{link, direction}) continue;
        if (kind == Fault::Kind::bandwidth) time *= 1 + (f.size - 1) * value(i, at);
        if (kind == Fault::Kind::occupancy) time += f.size * value(i, at);
      }
    }
  }
  return time;
}

std::vector<MessageStamps> Trace::messages(std::uint32_t link, std::size_t direction) {
  const std::uint32_t from = direction == 0 ? link : link + 1, to = direction == 0 ? link + 1 : link;
  Draws draws(p_.seed, {3, iteration_, link, direction});
  const auto jitter = [&] {
    const double usual = draws.exponential(p_.jitter);
    return draws.uniform() < p_.spikes ? usual + draws.exponential(p_.spike) : usual;
  };
  const auto sender = [&](double at) { return Instant(ns(clock(p_.nodes[from], at))); };
  const auto receiver = [&](double at) { return Instant(ns(clock(p_.nodes[to], at))); };
  std::vector<MessageStamps> stamps;
  for (std::uint32_t m = 0; m < p_.micro_batches; ++m) {
    const double began = direction == 0 ? forward_start(from, m) : backward_start(from, m);
    const double ended = began + p_.operators[direction];
    const double bytes = std::nearbyint(p_.bytes * (1 + p_.spread * (2 * draws.uniform() - 1)));
    double& free = free_[link][direction];
    free = std::max(ended, free) + service(link, direction, ended, bytes);
    const double arrived = free + latency(link, direction, ended) + jitter();
    const double announced = began + latency(link, direction, began) + jitter();
    const double way_back = p_.ack_over_link ? latency(link, 1 - direction, arrived) : p_.ack_latency;
    const double back = arrived + p_.turnaround + way_back + jitter();
    MessageStamps stamp;
    stamp.handed_over = sender(ended);
    stamp.arrived = receiver(arrived);
    stamp.round_trip = sender(back) - stamp.handed_over - Duration(ns(p_.turnaround));
    stamp.bytes = {static_cast<std::uint64_t>(bytes)};
    if (p_.announcements) stamp.announcement = {sender(began), receiver(announced)};
    stamps.push_back(stamp);
  }
  return stamps;
}

IterationSamples Trace::next() {
  IterationSamples samples;
  samples.iteration = {iteration_ + 1};
  samples.stages.resize(p_.stages);
  samples.links.resize(p_.stages - 1);
  for (std::uint32_t s = 0; s < p_.stages; ++s)
    for (std::size_t q = 0; q < 3; ++q) samples.stages[s].operators[q] = operators(s, q);
  for (std::uint32_t l = 0; l + 1 < p_.stages; ++l)
    for (std::size_t d = 0; d < 2; ++d) samples.links[l].messages[d] = messages(l, d);
  ++iteration_;
  return samples;
}

}  // namespace stagecraft::traces
