#include "planning/migration_machine.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "planning/bug.hpp"

namespace stagecraft {

using namespace move_effect;  // NOLINT(google-build-using-namespace): whose names this file is about

std::string to_text(const MoveLane& lane) {
  return fmt::format("{} from stage {} to stage {} of replica {}", to_text(lane.layers), lane.from.value, lane.to.value,
                     lane.replica.value);
}

std::string to_text(const MoveEffect& effect) {
  struct Text {
    std::string operator()(const Lead& e) const { return fmt::format("lead {}, {}", to_text(e.lane), at(e.key)); }
    std::string operator()(const AskVote& e) const { return fmt::format("ask {}, {}", to_text(e.lane), at(e.key)); }
    std::string operator()(const Wait&) const { return "wait"; }
    std::string operator()(const Flip& e) const { return fmt::format("flip move {}", e.move.value); }
    std::string operator()(const GiveUp& e) const { return fmt::format("give up move {}: {}", e.move.value, e.why); }
    std::string operator()(const Close& e) const { return fmt::format("close move {}", e.move.value); }
    static std::string at(Key key) {
      return fmt::format("epoch {} iteration {}", key.epoch.value, key.iteration.value);
    }
  };
  return std::visit(Text{}, effect);
}

std::vector<MoveEffect> MigrationMachine::step(const MoveEvent& event) {
  Effects effects;
  std::visit([&](const auto& e) { on(e, effects); }, event);
  return effects;
}

template <class Effect>
void MigrationMachine::for_each_lane(Effects& effects) const {
  for (std::uint32_t r = 0; r < order_.replicas; ++r)
    for (const Transfer& t : order_.transfers)
      effects.emplace_back(Effect{order_.id, key_, MoveLane{t.from, t.to, t.layers, {r}}});
}

void MigrationMachine::on(const move_event::Begin& e, Effects& effects) {
  STAGECRAFT_ASSERT(phase_ == Phase::idle, "move {} begins before move {} is over", e.order.id.value, order_.id.value);
  STAGECRAFT_ASSERT(!e.order.transfers.empty(), "move {} moves nothing", e.order.id.value);
  order_ = e.order;
  key_ = e.key;
  phase_ = Phase::following;
  lanes_.clear();
  for (std::uint32_t r = 0; r < order_.replicas; ++r)
    for (const Transfer& t : order_.transfers) lanes_[{t.from, t.to, t.layers, {r}}] = {};
  for_each_lane<Lead>(effects);
}

void MigrationMachine::on(const MoveVote& e, Effects&) {
  if (e.move != under_way()) return;
  const auto it = lanes_.find(e.lane);
  if (it == lanes_.end()) return;
  // That it follows stays true: it makes every step that is decided. The rest is about one iteration.
  if (e.kind == MoveVote::Kind::follows) it->second.follows = true;
  if (phase_ != Phase::voting || e.key != key_) return;
  if (e.kind == MoveVote::Kind::owner) it->second.owner = e.digest;
  if (e.kind == MoveVote::Kind::copy) it->second.copy = e.digest;
  if (e.kind == MoveVote::Kind::holds) it->second.holds = true;
}

void MigrationMachine::on(const move_event::Opened& e, Effects& effects) {
  if (phase_ != Phase::following) return;
  key_ = e.key;
  const bool all = std::all_of(lanes_.begin(), lanes_.end(), [](const auto& l) { return l.second.follows; });
  if (!all) return;
  phase_ = Phase::voting;
  for_each_lane<AskVote>(effects);
}

void MigrationMachine::on(const move_event::Boundary&, Effects& effects) {
  if (phase_ == Phase::closing) {
    phase_ = Phase::idle;
    effects.emplace_back(Close{order_.id});
    return;
  }
  if (phase_ != Phase::voting) return;
  for (const auto& [lane, said] : lanes_)
    if (said.owner && said.copy && *said.owner != *said.copy)
      return give_up(fmt::format("the copy differs from what it is a copy of: digests {:016x} and {:016x}, {}",
                                 *said.owner, *said.copy, to_text(lane)),
                     effects);
  const bool complete = std::all_of(lanes_.begin(), lanes_.end(), [](const auto& l) { return l.second.complete(); });
  if (!complete) {
    effects.emplace_back(Wait{});
    return;
  }
  phase_ = Phase::closing;
  effects.emplace_back(Flip{order_.id});
}

void MigrationMachine::on(const move_event::Disturbed& e, Effects& effects) {
  if (under_way() != MoveId{}) give_up(e.why, effects);
}

void MigrationMachine::on(const move_event::TimeUp&, Effects& effects) {
  if (under_way() != MoveId{}) give_up("its time is up: " + missing(), effects);
}

void MigrationMachine::give_up(std::string why, Effects& effects) {
  phase_ = Phase::idle;
  effects.emplace_back(GiveUp{order_.id, std::move(why)});
}

std::string MigrationMachine::missing() const {
  std::vector<std::string> all;
  for (const auto& [lane, said] : lanes_) {
    std::vector<std::string> lacks;
    if (!said.follows) lacks.emplace_back("a copy that follows");
    if (phase_ == Phase::voting && !said.owner) lacks.emplace_back("the owner's digest");
    if (phase_ == Phase::voting && !said.copy) lacks.emplace_back("the copy's digest");
    if (phase_ == Phase::voting && !said.holds) lacks.emplace_back("the word of the stage that is to have them");
    if (!lacks.empty()) all.push_back(fmt::format("{} lacks {}", to_text(lane), fmt::join(lacks, ", ")));
  }
  return all.empty() ? "nothing is missing" : fmt::format("{}", fmt::join(all, "; "));
}

std::string MigrationMachine::text() const {
  static constexpr std::string_view names[] = {"idle", "following", "voting", "closing"};
  std::string all = fmt::format("{} move {} epoch {} iteration {}", names[static_cast<std::size_t>(phase_)],
                                order_.id.value, key_.epoch.value, key_.iteration.value);
  for (const auto& [lane, said] : lanes_) {
    const auto digest = [](const std::optional<std::uint64_t>& d) { return d ? fmt::format("{:x}", *d) : "none"; };
    all += fmt::format("; {}:{}{} owner {} copy {}", to_text(lane), said.follows ? " follows" : "",
                       said.holds ? " holds" : "", digest(said.owner), digest(said.copy));
  }
  return all;
}

}  // namespace stagecraft
