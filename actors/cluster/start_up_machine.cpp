#include "actors/cluster/start_up_machine.hpp"

#include <fmt/format.h>

namespace stagecraft {

using namespace start_up;  // NOLINT(google-build-using-namespace): whose names this file is about

std::vector<start_up::Effect> StartUpMachine::step(const start_up::Event& event) {
  Effects effects;
  std::visit([&](const auto& e) { on(e, effects); }, event);
  return effects;
}

void StartUpMachine::on(const HelloCame& x, Effects& effects) {
  if (!roster_) {
    effects.emplace_back(Refuse{"this is not the first node of the job; see --leader"});
    return;
  }
  const auto admitted = roster_->admit(x.hello);
  if (const auto* why = std::get_if<std::string>(&admitted)) {
    effects.emplace_back(Refuse{*why});
    return;
  }
  effects.emplace_back(Admit{std::get<std::uint32_t>(admitted)});
  if (roster_->complete()) effects.emplace_back(SendSheet{{roster_->addresses(), secret_}});
}

void StartUpMachine::on(const SheetCame& x, Effects& effects) {
  if (roster_ || sheet_) return;
  sheet_ = x.sheet;
  secret_ = x.sheet.secret;
  effects.emplace_back(MakeLanes{0, secret_});
  for (std::uint32_t n = 1; n < index_; ++n) effects.emplace_back(Reach{n, sheet_->addresses[n]});
  for (auto& [node, lanes] : std::exchange(early_, {})) on(Greeted{node, lanes}, effects);
}

void StartUpMachine::on(const Reached& x, Effects& effects) {
  if (x.node > 0 && x.node < index_) effects.emplace_back(MakeLanes{x.node, secret_});
}

// By one behind this one: this end's lanes are made, and answered with. By one before it: that is the answer.
void StartUpMachine::on(const Greeted& x, Effects& effects) {
  if (x.node < index_) {
    effects.emplace_back(ConnectLanes{x.node, x.lanes});
  } else if (!roster_ && !sheet_) {
    early_[x.node] = x.lanes;
  } else {
    answers_[x.node] = x.lanes;
    effects.emplace_back(MakeLanes{x.node, secret_});
  }
}

void StartUpMachine::on(const LanesMade& x, Effects& effects) {
  effects.emplace_back(Greet{x.node, x.own});
  if (auto answer = answers_.extract(x.node)) effects.emplace_back(ConnectLanes{x.node, answer.mapped()});
}

void StartUpMachine::on(const LanesUp& x, Effects& effects) {
  up_.insert(x.node);
  if (up_.size() + 1 < nodes_) return;
  if (!roster_) {
    effects.emplace_back(SayMeshed{});
    return;
  }
  roster_->reaches_all(0);
  maybe_ready(effects);
}

void StartUpMachine::on(const Meshed& x, Effects& effects) {
  if (!roster_) return;
  roster_->reaches_all(x.node);
  maybe_ready(effects);
}

void StartUpMachine::maybe_ready(Effects& effects) {
  if (roster_->ready()) effects.emplace_back(Ready{});
}

std::string StartUpMachine::waits_for() const {
  if (roster_) return roster_->missing();
  if (!sheet_) return "the other nodes have not come to the first one yet";
  std::vector<std::uint32_t> missing;
  for (std::uint32_t n = 0; n < nodes_; ++n)
    if (n != index_ && !up_.contains(n)) missing.push_back(n);
  if (missing.empty()) return "the first node does not begin";
  return fmt::format("no lanes to the nodes of index {}", fmt::join(missing, ", "));
}

}  // namespace stagecraft
