#include "actors/faults/fault_board.hpp"

#include <algorithm>

#include "actors/faults/draws.hpp"
#include "planning/bug.hpp"

namespace stagecraft {

// One direction of one link, as its channel sees it.
class FaultBoard::Weather final : public LinkWeather {
 public:
  Weather(FaultBoard& board, StageId from, StageId to, Direction direction, ReplicaId replica)
      : board_(board), from_(from), to_(to), direction_(direction), replica_(replica) {}

  LinkCost cost(const LinkCost& healthy, Bytes size) override {
    const Lock lock(board_.mutex_);
    LinkCost cost = healthy;
    for (const std::uint32_t i : board_.active_) {
      const FaultSpec& fault = board_.spec(i);
      if (!concerns(fault)) continue;
      if (fault.kind == FaultKind::delay)
        cost.latency += fault.mean.count() > 0 ? exponential(board_.draws_[i], fault.mean) : fault.constant;
      if (fault.kind == FaultKind::throttle) {
        const Duration extra = service_time(healthy, size) + healthy.latency - healthy.staging;
        cost.occupancy += Duration{static_cast<std::int64_t>(static_cast<double>(extra.count()) * (fault.factor - 1))};
      }
    }
    return cost;
  }
  bool holds(std::function<void()> again) override {
    const Lock lock(board_.mutex_);
    for (const std::uint32_t i : board_.active_) {
      const FaultSpec& fault = board_.spec(i);
      const bool cut = fault.kind == FaultKind::partition &&
                       board_.cuts(fault, board_.node_of(Place{from_, replica_}), board_.node_of(Place{to_, replica_}));
      if (!cut && !(fault.kind == FaultKind::link_down && concerns(fault))) continue;
      board_.hold(i, std::move(again));
      return true;
    }
    return false;
  }

 private:
  bool concerns(const FaultSpec& fault) const {
    const FaultTarget& on = fault.on;
    if (on.kind != FaultTarget::Kind::link) return false;
    const bool here = (on.stage == from_ && on.other == to_) || (on.stage == to_ && on.other == from_);
    return here && (!on.direction || *on.direction == direction_) && (!on.replica || *on.replica == replica_);
  }

  FaultBoard& board_;
  StageId from_, to_;
  Direction direction_;
  ReplicaId replica_;
};

FaultBoard::FaultBoard(const Scenario& scenario, const Topology& topology, std::uint64_t seed)
    : scenario_(scenario), topology_(topology), seed_(seed) {
  for (const FaultSpec& fault : scenario_.faults) draws_.emplace_back(seed, "board " + fault.id);
}

FaultBoard::~FaultBoard() = default;

void FaultBoard::listen(std::function<void(Happened)> ear) {
  ear_ = std::move(ear);
  const InjectorMachine machine(scenario_.faults, scenario_.calm, seed_);
  std::uint32_t wanted = 0;
  for (std::size_t e = 0; e < run_events; ++e)
    if (machine.wants(static_cast<RunEvent>(e))) wanted |= 1U << e;
  wanted_.store(wanted);
}

std::size_t FaultBoard::add(const FaultSpec& fault) {
  const Lock lock(mutex_);
  scenario_.faults.push_back(fault);
  draws_.emplace_back(seed_, "board " + fault.id);
  return scenario_.faults.size() - 1;
}

std::vector<FaultSpec> FaultBoard::faults() const {
  const Lock lock(mutex_);
  return scenario_.faults;
}

void FaultBoard::strike(std::size_t fault) {
  const FaultSpec f = [&] {
    const Lock lock(mutex_);
    return spec(fault);
  }();
  if (is_disk_fault(f.kind)) {
    STAGECRAFT_ASSERT(disk_, "a disk fault strikes a world whose disk can't fail");
    return disk_->arm(disk_fault(f));
  }
  const Lock lock(mutex_);
  (strikes_once(f.kind) ? once_ : active_).push_back(static_cast<std::uint32_t>(fault));
}

void FaultBoard::heal(std::size_t fault) {
  const Lock going(going_on_);
  std::vector<Again> going_on;
  {
    const Lock lock(mutex_);
    if (closed_) return;
    std::erase(active_, static_cast<std::uint32_t>(fault));
    std::erase_if(left_behind_, [fault](const auto& x) { return x.first == fault; });
    if (auto node = held_.extract(fault)) going_on = std::move(node.mapped());
  }
  // Whatever another fault holds as well is held again.
  for (const Again& again : going_on) again();
}

void FaultBoard::note(FaultMoment moment) {
  const Lock lock(mutex_);
  moments_.push_back(moment);
}

std::vector<FaultMoment> FaultBoard::moments() const {
  const Lock lock(mutex_);
  return moments_;
}

void FaultBoard::close() {
  const Lock going(going_on_);
  std::map<std::size_t, std::vector<Again>> dropped;
  const Lock lock(mutex_);
  closed_ = true;
  dropped.swap(held_);
}

DiskFault FaultBoard::disk_fault(const FaultSpec& fault) const {
  const DiskFault::Kind kind = fault.kind == FaultKind::disk_full    ? DiskFault::Kind::no_space
                               : fault.kind == FaultKind::torn_write ? DiskFault::Kind::torn
                                                                     : DiskFault::Kind::flip_bit;
  return {kind, fault.operation};
}

void FaultBoard::place(std::uint64_t actor, std::optional<Place> place) {
  const Lock lock(mutex_);
  parties_[actor] = place;
}

std::uint32_t FaultBoard::node_of(const std::optional<Place>& place) const {
  if (!place) return 0;
  const auto it = moved_.find(*place);
  return it == moved_.end() ? topology_.seat(*place).node : it->second;
}

bool FaultBoard::concerns(const FaultSpec& fault, const std::optional<Place>& place) const {
  if (fault.on.kind == FaultTarget::Kind::job) return true;
  if (fault.on.kind == FaultTarget::Kind::nodes)
    return place && std::find(fault.on.nodes.begin(), fault.on.nodes.end(), node_of(*place)) != fault.on.nodes.end();
  return place && place->stage == fault.on.stage && place->replica == fault.on.replica.value_or(ReplicaId{0});
}

bool FaultBoard::strikes_device(std::uint32_t fault, Place place) const {
  return concerns(spec(fault), place) &&
         std::find(left_behind_.begin(), left_behind_.end(), std::pair{fault, place}) == left_behind_.end();
}

void FaultBoard::moved(Place place, std::uint32_t node) {
  const Lock lock(mutex_);
  moved_[place] = node;
  for (const std::uint32_t i : active_) left_behind_.emplace_back(i, place);
}

bool FaultBoard::cuts(const FaultSpec& fault, std::uint32_t one, std::uint32_t other) const {
  const auto& nodes = fault.on.nodes;
  return nodes.size() == 2 && ((nodes[0] == one && nodes[1] == other) || (nodes[0] == other && nodes[1] == one));
}

std::vector<Duration> FaultBoard::copies(std::uint64_t from, std::uint64_t to) {
  const Lock lock(mutex_);
  std::vector<Duration> late(1, Duration{});
  if (active_.empty()) return late;
  const std::optional<Place>& sender = parties_[from];
  const std::optional<Place>& receiver = parties_[to];
  for (const std::uint32_t i : active_) {
    const FaultSpec& fault = spec(i);
    const bool message =
        fault.kind == FaultKind::drop || fault.kind == FaultKind::duplicate || fault.kind == FaultKind::reorder;
    if (!message || (!concerns(fault, sender) && !concerns(fault, receiver))) continue;
    if (!chance(draws_[i], fault.probability)) continue;
    if (fault.kind == FaultKind::drop) return {};
    if (fault.kind == FaultKind::duplicate) late.push_back(late.front());
    if (fault.kind == FaultKind::reorder)
      for (Duration& one : late) one += exponential(draws_[i], fault.mean);
  }
  return late;
}

bool FaultBoard::holds(std::uint64_t from, std::uint64_t to, Again again) {
  const Lock lock(mutex_);
  for (const std::uint32_t i : active_) {
    if (spec(i).kind != FaultKind::partition || !cuts(spec(i), node_of(parties_[from]), node_of(parties_[to])))
      continue;
    hold(i, std::move(again));
    return true;
  }
  return false;
}

void FaultBoard::hold(std::size_t fault, Again again) {
  if (!closed_) held_[fault].push_back(std::move(again));
}

bool FaultBoard::loses_messages() const {
  const Lock lock(mutex_);
  return std::any_of(scenario_.faults.begin(), scenario_.faults.end(), [](const FaultSpec& f) {
    return f.kind == FaultKind::drop || f.kind == FaultKind::reorder || f.kind == FaultKind::partition;
  });
}

LinkWeather& FaultBoard::weather(StageId from, StageId to, Direction direction, ReplicaId replica) {
  const Lock lock(mutex_);
  weathers_.push_back(std::make_unique<Weather>(*this, from, to, direction, replica));
  return *weathers_.back();
}

DeviceVerdict FaultBoard::judge(Place place, const Completion& completion, bool has_output, Again again) {
  const Lock lock(mutex_);
  DeviceVerdict verdict;
  for (const std::uint32_t i : active_) {
    const FaultSpec& fault = spec(i);
    if (!strikes_device(i, place)) continue;
    const double time = static_cast<double>((completion.ended - completion.started).count());
    if (fault.kind == FaultKind::slow) verdict.extra += Duration{static_cast<std::int64_t>(time * (fault.factor - 1))};
    if (fault.kind == FaultKind::pause) {
      hold(i, std::move(again));
      verdict.held = true;
      return verdict;
    }
  }
  std::erase_if(once_, [&](std::uint32_t i) {
    const FaultSpec& fault = spec(i);
    const bool takes = concerns(fault, place) && (fault.kind == FaultKind::oom || has_output);
    if (takes && fault.kind == FaultKind::oom) verdict.out_of_memory = true;
    if (takes && fault.kind == FaultKind::nan) verdict.not_a_number = true;
    return takes;
  });
  return verdict;
}

Duration FaultBoard::skew(Place place) const {
  const Lock lock(mutex_);
  Duration sum{};
  for (const std::uint32_t i : active_)
    if (spec(i).kind == FaultKind::skew && concerns(spec(i), place)) sum += spec(i).offset;
  return sum;
}

}  // namespace stagecraft
