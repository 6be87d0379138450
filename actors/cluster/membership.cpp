#include "actors/cluster/membership.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace stagecraft {

using namespace membership;  // NOLINT(google-build-using-namespace): whose names this file is about

namespace {

bool contains(const std::vector<std::uint32_t>& members, std::uint32_t node) {
  return std::find(members.begin(), members.end(), node) != members.end();
}

}  // namespace

Membership::Membership(std::uint32_t self, std::uint32_t nodes) : self_(self) {
  for (std::uint32_t n = 0; n < nodes; ++n) view_.members.push_back(n);
}

std::vector<Effect> Membership::step(const Event& event) {
  Effects effects;
  if (!over_) std::visit([&](const auto& e) { on(e, effects); }, event);
  return effects;
}

std::vector<std::uint32_t> Membership::left() const {
  std::vector<std::uint32_t> reached;
  for (const std::uint32_t n : view_.members)
    if (!lost_.contains(n)) reached.push_back(n);
  return reached;
}

std::string Membership::count() const { return fmt::format("{} of the {} nodes", left().size(), view_.members.size()); }

void Membership::on(const NodeLost& x, Effects& effects) {
  if (!contains(view_.members, x.node) || !lost_.insert(x.node).second) return;
  if (leads()) return propose(effects);
  elect(effects);
}

// Only where the leader is lost. The first of those left stands for election; it needs more than half of all, and keeps
// what it has won until its view is settled.
void Membership::elect(Effects& effects) {
  if (leads() || !lost_.contains(view_.leader)) return;
  const std::vector<std::uint32_t> reached = left();
  if (2 * reached.size() <= view_.members.size())
    return end(fmt::format("the leading node is lost, and {} that are left are not more than half: they can't know "
                           "that the others do not go on",
                           count()),
               effects);
  wait(effects);
  if (reached.front() != self_) {
    if (std::exchange(voted_for_, reached.front()) != reached.front())
      effects.emplace_back(Vote{reached.front(), view_});
    return;
  }
  votes_.insert(self_);
  const auto votes = std::count_if(reached.begin(), reached.end(), [&](std::uint32_t n) { return votes_.contains(n); });
  if (proposal_ || 2 * static_cast<std::size_t>(votes) > view_.members.size()) propose(effects);
}

void Membership::propose(Effects& effects) {
  const std::vector<std::uint32_t> reached = left();
  if (leads() && 2 * reached.size() < view_.members.size())
    return end(fmt::format("it leads the job and reaches only {}: the others may go on without it", count()), effects);
  if (proposal_ && proposal_->members == reached) return;
  highest_ = std::max(highest_, view_.number) + 1;
  proposal_ = View{highest_, self_, reached};
  accepted_ = {self_};
  wait(effects);
  effects.emplace_back(Propose{*proposal_});
  settle(effects);
}

void Membership::settle(Effects& effects) {
  if (accepted_.size() < proposal_->members.size()) return;
  Settled settled;
  for (const std::uint32_t n : view_.members)
    if (!contains(proposal_->members, n)) settled.gone.push_back(n);
  settled.anew = !leads();
  view_ = *std::exchange(proposal_, std::nullopt);
  votes_.clear();
  waiting_.reset();
  effects.emplace_back(std::move(settled));
}

void Membership::on(const Voted& x, Effects& effects) {
  // Whoever has voted in an older view has not heard of this one.
  const bool differ = x.view.number != view_.number;
  if (x.view.number > view_.number && (x.view.leader == self_ || !adopt(x.view, effects))) return;
  if (differ) effects.emplace_back(Propose{view_});
  if (x.view.leader != view_.leader || !contains(view_.members, x.from)) return;
  votes_.insert(x.from);
  elect(effects);
}

void Membership::on(const Proposed& x, Effects& effects) {
  if (x.view.number <= view_.number || x.view.leader == self_) return;  // its own comes back from who passed it on
  if (!adopt(x.view, effects)) return;
  effects.emplace_back(Accept{x.view.leader, x.view.number});
  elect(effects);
}

// False: without this node.
bool Membership::adopt(const View& view, Effects& effects) {
  if (!contains(view.members, self_)) {
    end(fmt::format("the others gave this node up: node {} leads {} of them", view.leader, view.members.size()),
        effects);
    return false;
  }
  for (const std::uint32_t n : view_.members)
    if (!contains(view.members, n) && n != self_) effects.emplace_back(Part{n});
  if (view.leader != view_.leader) {
    effects.emplace_back(Follow{view.leader});
    votes_.clear();
    voted_for_.reset();
    waiting_.reset();
  }
  view_ = view;
  proposal_.reset();
  return true;
}

void Membership::on(const Accepted& x, Effects& effects) {
  if (!proposal_ || x.number != proposal_->number) return;
  accepted_.insert(x.from);
  settle(effects);
}

void Membership::wait(Effects& effects) {
  if (waiting_) return;
  waiting_ = ++waits_;
  effects.emplace_back(Wait{*waiting_});
}

void Membership::on(const TimeUp& x, Effects& effects) {
  if (waiting_ != x.wait) return;
  end(fmt::format("{} are left, and they do not agree in time on who leads the job", count()), effects);
}

void Membership::end(std::string why, Effects& effects) {
  over_ = true;
  effects.emplace_back(End{std::move(why)});
}

}  // namespace stagecraft
