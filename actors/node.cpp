#include "actors/node.hpp"

#include <fmt/format.h>

#include <map>

namespace stagecraft {

void Outbox::put(const IterationReport& report) {
  {
    std::lock_guard guard(mutex_);
    reports_.push_back(report);
  }
  news_();
}
void Outbox::put(const WishAnswer& answer) {
  {
    std::lock_guard guard(mutex_);
    answers_.push_back(answer);
  }
  news_();
}
void Outbox::put(const Replace& lost, const std::map<Member, std::uint32_t>& homes) {
  std::lock_guard guard(mutex_);
  for (const Member& who : lost.who) ++losses_.replaced[who];
  losses_.homes = homes;
}
void Outbox::put(const NodeGone& gone) {
  std::lock_guard guard(mutex_);
  losses_.nodes.emplace(gone.node, gone.why);
}
void Outbox::put(Ended ended) {
  {
    std::lock_guard guard(mutex_);
    end_ = std::move(ended);
  }
  news_();
}
std::vector<IterationReport> Outbox::take_reports() {
  std::lock_guard guard(mutex_);
  return std::exchange(reports_, {});
}
std::vector<WishAnswer> Outbox::take_answers() {
  std::lock_guard guard(mutex_);
  return std::exchange(answers_, {});
}
Outbox::Losses Outbox::losses() const {
  std::lock_guard guard(mutex_);
  return losses_;
}
std::optional<Outbox::Ended> Outbox::take_end() {
  std::lock_guard guard(mutex_);
  return std::exchange(end_, std::nullopt);
}

namespace {

struct NodeState {
  static inline const char* name = "node";

  NodeActor::pointer self = nullptr;
  std::shared_ptr<Outbox> outbox;
  std::shared_ptr<Cast> cast;
  std::map<caf::actor_addr, Watched> watched;
  std::optional<Outbox::Ended> ending;  // set once, then completed by the last words
  // What a new leader of the job would have to know of this node.
  Key newest;                      // that was opened
  std::map<Member, Lost> missing;  // members of this node that are gone
  std::map<Member, Lost> rebuilt;  // or were, since then

  void on(const NodeWiring& x) {
    cast = x.cast;
    for (const Watched& w : cast->all()) watch(w);
  }
  void watch(const Watched& w) {
    watched.emplace(w.actor.address(), w);
    self->monitor(w.actor);
  }
  void on(const IterationReport& x) { outbox->put(x); }
  void on(const WishAnswer& x) { outbox->put(x); }
  void on(const JobEnded& x) {
    if (ending) return;
    ending = Outbox::Ended{x, {}, {}};
    tell(self, cast->monitor(), AskProfile{});
  }
  void on(const Profile& x) {
    ending->profile = x.stages;
    tell(self, cast->recorder(), CloseLog{});
  }
  void on(const LogClosed& x) {
    ending->log = x;
    outbox->put(std::move(*ending));
  }
  void on(const KillOrder& x) {
    if (const caf::actor victim = cast->handle_of(x.who)) caf::anon_send_exit(victim, caf::exit_reason::kill);
  }
  void on(const Replace& x) {
    if (ending) return;
    outbox->put(x, cast->moved());
    Replaced here;
    for (const Member& who : x.who) {
      if (auto gone = missing.extract(who)) rebuilt.insert(std::move(gone));
      if (const auto node = cast->node_of(who)) {
        tell(self, *node, Replace{{who}});
        continue;
      }
      watched.erase(cast->handle_of(who).address());  // whatever it does from now on, it is not missed
      for (const Watched& w : cast->replace(who)) watch(w);
      here.who.push_back(who);
    }
    if (!here.who.empty()) tell(self, cast->coordinator(), std::move(here));
  }
  // The leading node finds other homes for everyone; the others hear of it.
  void on(const NodesGone& x) {
    if (ending) return;
    std::map<std::uint32_t, std::string> why;
    for (const NodeGone& gone : x.gone) {
      why[gone.node] = gone.why;
      outbox->put(gone);
    }
    for (const auto& [who, node] : cast->keep(x.left))
      tell(self, cast->coordinator(), Lost{who, fmt::format("node '{}': {}", cast->name_of(node), why[node])});
  }
  void on(const Rehomed& x) { cast->adopt(x); }
  void on(const Led& x) { cast->follow(x.leader); }
  void on(const Minutes& x) {
    if (x.key > newest) {
      newest = x.key;
      rebuilt.clear();
    }
    if (x.decides) outbox->put(x.decided);
  }
  void on(const AskAccount& x) {
    Account account{x.view, {}, cast->homes(), {}};
    for (const auto& members : {missing, rebuilt})
      for (const auto& [who, lost] : members) account.missing.push_back(lost);
    tell(self, cast->part()->gate, std::move(account));
  }
  void on(TakeOver&& x) {
    if (ending) return;
    for (const Watched& w : cast->take_over(x.job, x.from)) watch(w);
    const std::string& here = cast->name_of(cast->part()->index);
    for (const NodeGone& gone : x.from.nodes.gone)
      tell(self, cast->recorder(),
           Event{.kind = EventKind::led,
                 .at = x.job->world.now(),
                 .key = x.from.newest.key,
                 .text = fmt::format("node '{}' leads the job from now on, {} nodes are left: node '{}' is lost ({})",
                                     here, x.from.nodes.left.size(), cast->name_of(gone.node), gone.why)});
    on(x.from.nodes);
    for (const Lost& lost : x.from.missing) tell(self, cast->coordinator(), lost);
    tell(self, cast->coordinator(), Replaced{});  // it may be that nobody is missing
  }
  void on(const NodeFailed& x) {
    if (!ending) on(JobEnded{Ending::bug, x.why});
  }
  // Nobody leaves before the end. A stage or a twin that was killed is replaced; anyone else has met a broken
  // invariant.
  void on_down(const caf::down_msg& down) {
    const auto it = watched.find(down.source);
    if (it == watched.end() || ending) return;
    const Watched who = it->second;
    watched.erase(it);
    const bool killed = down.reason == caf::exit_reason::kill || down.reason == caf::exit_reason::user_shutdown;
    if (who.member && killed) {
      const Lost lost{*who.member, why(down.reason)};
      missing[*who.member] = lost;
      return tell(self, cast->coordinator(), lost);
    }
    const std::string reason = fmt::format("{} ended: {}", who.name, caf::to_string(down.reason));
    if (cast->leader() != self) return tell(self, cast->leader(), NodeFailed{reason});
    const caf::actor_addr gone = who.actor.address();
    if (gone == cast->monitor().address() || gone == cast->recorder().address()) {  // they can't give their last words
      ending = Outbox::Ended{{Ending::bug, reason}, {}, {}};
      return outbox->put(std::move(*ending));
    }
    on(JobEnded{Ending::bug, reason});
  }
  static std::string why(const caf::error& reason) {
    return reason == caf::exit_reason::kill ? "it was killed" : "an operator found no memory";
  }
};

NodeActor::behavior_type node_behavior(NodeActor::stateful_pointer<NodeState> self, std::shared_ptr<Outbox> outbox) {
  NodeState& s = self->state;
  s.self = self;
  s.outbox = std::move(outbox);
  self->set_down_handler([&s](const caf::down_msg& down) { s.on_down(down); });
  return behavior_of(NodeActor{}, s);
}

}  // namespace

NodeHandles spawn_node(const JobRef& job, std::shared_ptr<Outbox> outbox, std::optional<NodePart> part,
                       std::shared_ptr<const LoadedCheckpoint> start) {
  NodeHandles handles;
  handles.node = job->world.system().spawn(node_behavior, std::move(outbox));
  handles.cast = std::make_shared<Cast>(job, handles.node, std::move(part), std::move(start));
  handles.cast->spawn_all();
  tell_from_outside(handles.node, NodeWiring{handles.cast});
  handles.cast->wire_all();
  return handles;
}

}  // namespace stagecraft
