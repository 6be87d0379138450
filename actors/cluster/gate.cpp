#include "actors/cluster/gate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "actors/wire/archive.hpp"
#include "planning/bug.hpp"

namespace stagecraft {

GateNews::Board GateNews::read() {
  const std::lock_guard guard(mutex_);
  Board board = board_;
  board_.to_reach.clear();
  board_.refusals.clear();
  board_.retired.clear();
  board_.succession.reset();
  return board;
}

namespace {

using Kind = Envelope::Kind;

// Before the message's own bytes.
struct Address {
  ActorName to;
  std::uint8_t type = 0;
  std::uint64_t after = 0;  // with tensors: how many messages without were sent before it
};
STAGECRAFT_WIRE(Address, x.to, x.type, x.after)

struct Arrived {
  Address address;
  std::vector<char> bytes;
  std::vector<Tensor> payloads;
};

template <class Message>
std::string text_of(const Message& message) {
  const std::vector<char> bytes = to_bytes(message);
  return {bytes.begin(), bytes.end()};
}
template <class Message>
Message read_text(const std::string& text) {
  return from_bytes<Message>({text.begin(), text.end()});
}

struct GateState {
  static inline const char* name = "gate";

  GateActor::pointer self = nullptr;
  GateOptions options;
  std::optional<Homes> homes;
  NodeActor node;  // of this gate; none until there is one

  struct Peer {
    GatePeer to;
    std::uint64_t sent = 0, received = 0;               // messages without tensors
    std::deque<BulkArrived> waiting;                    // for those that were sent before them
    std::optional<caf::actor_clock::time_point> heard;  // last; none: it may not know this node yet
  };
  std::map<std::uint32_t, Peer> peers;
  std::map<ActorName, std::shared_ptr<Doorway>> here;
  std::map<ActorName, std::vector<Arrived>> early;      // for those who are yet to be spawned
  std::optional<caf::actor_clock::time_point> beat_at;  // the last one; none: not with processes of their own
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::string> apart;  // others that do not reach each other, and why

  std::optional<Membership> membership;             // from the begin of the job to its end
  std::map<std::uint32_t, std::string> lost;        // nodes, and why
  Minutes minutes;                                  // the newest
  std::map<std::uint64_t, std::uint32_t> asked_by;  // views that wait for this node's account: their leaders
  std::map<std::uint32_t, Account> accounts;        // of other nodes, for the view that this one proposes
  std::optional<NodesGone> succeeds;                // it is to lead, when its own account is there

  // -- messages of the job
  void on(GateWiring&& x) {
    for (auto& [index, peer] : x.peers) {
      self->monitor(peer.door);
      peers[index].to = std::move(peer);
    }
    begin_membership();
  }
  void on(const Served& x) { node = x.node; }
  void on(Hosted&& x) {
    here[x.who] = std::move(x.door);
    if (auto waited = early.extract(x.who))
      for (Arrived& message : waited.mapped()) deliver(std::move(message));
  }
  void on(Outgoing&& x) {
    const std::uint32_t home = homes->of(x.to);
    if (home == options.index)  // it has moved here
      return deliver({{x.to, x.type, 0}, std::move(x.bytes), std::move(x.payloads)});
    const auto it = peers.find(home);
    if (it == peers.end()) return;  // the node is gone, and whoever lived there
    Peer& peer = it->second;
    std::vector<char> bytes = to_bytes(Address{x.to, x.type, peer.sent});
    bytes.insert(bytes.end(), x.bytes.begin(), x.bytes.end());
    if (!x.payloads.empty()) return peer.to.route->send(x.lane, std::move(bytes), std::move(x.payloads));
    send(peer.to.door, Kind::message, std::string(bytes.begin(), bytes.end()), ++peer.sent);
  }
  void send(const PeerDoor& to, Kind kind, std::string bytes = {}, std::uint64_t number = 0) {
    tell(self, to, Envelope{kind, options.index, number, std::move(bytes)});
  }
  // Whoever sends what can't be read is no node of this job. Nobody speaks in the name of another one.
  void on(const Envelope& x) try {
    const auto it = peers.find(x.from);
    const bool speaks_for_itself = it != peers.end() && it->second.to.door.address() == self->current_sender();
    if (speaks_for_itself) it->second.heard = self->clock().now();
    if (x.kind == Kind::hello || x.kind == Kind::greeting) return on_start_up(x);
    if (!speaks_for_itself) return;
    if (x.kind != Kind::message) return on_start_up(x);
    Peer& peer = it->second;
    if (x.number != peer.received + 1)
      throw WireError(fmt::format("message {} came after {}", x.number, peer.received));
    peer.received = x.number;
    deliver(open({x.bytes.begin(), x.bytes.end()}, {}));
    while (!peer.waiting.empty() && address_of(peer.waiting.front().header).after <= peer.received) {
      BulkArrived next = std::move(peer.waiting.front());
      peer.waiting.pop_front();
      deliver(open(std::move(next.header), std::move(next.payloads)));
    }
  } catch (const WireError& e) {
    lose(x.from, fmt::format("what it sends can't be read: {}", e.what()));
  }
  void on(BulkArrived&& x) try {
    const auto it = peers.find(x.from);
    if (it == peers.end()) return;
    Peer& peer = it->second;
    if (!peer.waiting.empty() || address_of(x.header).after > peer.received)
      return peer.waiting.push_back(std::move(x));
    deliver(open(std::move(x.header), std::move(x.payloads)));
  } catch (const WireError& e) {
    lose(x.from, fmt::format("what it sends can't be read: {}", e.what()));
  }
  static Address address_of(const std::vector<char>& bytes) {
    Address address;
    WireReader{bytes.data(), bytes.size()}(address);
    return address;
  }
  static Arrived open(std::vector<char> bytes, std::vector<Tensor> payloads) {
    static const auto size = static_cast<std::ptrdiff_t>(to_bytes(Address{}).size());
    const Address address = address_of(bytes);
    bytes.erase(bytes.begin(), bytes.begin() + size);
    return {address, std::move(bytes), std::move(payloads)};
  }
  void deliver(Arrived message) {
    const auto it = here.find(message.address.to);
    if (it == here.end()) {
      early[message.address.to].push_back(std::move(message));
      return;
    }
    it->second->deliver(message.address.type, message.bytes.data(), message.bytes.size(), std::move(message.payloads));
  }

  // -- start-up and end
  void on(const Hello& x) { send(peers.at(0).to.door, Kind::hello, text_of(x)); }  // of this node, to the first
  void on(const Connected& x) {
    join(x.node, x.door);
    step(start_up::Reached{x.node});
  }
  void on(const LanesAreUp& x) { step(start_up::LanesUp{x.node}); }
  void on(const NodeLost& x) { lose(x.node, x.why); }
  void on(const BeginJob& x) {
    send_all(Kind::begin, text_of(x));
    begin_membership();
  }
  void on(const FinishJob& x) {
    membership.reset();
    send_all(Kind::finish, text_of(x));
  }
  void on(const Rehomed& x) {
    send_all(Kind::rehomed, text_of(x));
    adopt(x);
  }
  void adopt(const Rehomed& x) {
    homes->adopt(x.homes);
    tell_node(x);
  }
  void send_all(Kind kind, const std::string& bytes) {
    for (const auto& [index, peer] : peers) send(peer.to.door, kind, bytes);
  }
  void on_start_up(const Envelope& x) {
    const auto sender = caf::actor_cast<PeerDoor>(self->current_sender());
    switch (x.kind) {
      case Kind::message:
      case Kind::beat:
        break;
      case Kind::hello:
        return step(start_up::HelloCame{read_text<Hello>(x.bytes)}, sender);
      case Kind::sheet:
        return step(start_up::SheetCame{read_text<RosterSheet>(x.bytes)});
      case Kind::greeting:
        if (x.from > options.index && !peers.contains(x.from)) join(x.from, sender);
        return step(start_up::Greeted{x.from, read_text<LaneAddresses>(x.bytes)});
      case Kind::meshed:
        return step(start_up::Meshed{x.from});
      case Kind::refused:
        return options.news->change([&](auto& board) { board.refused = x.bytes; });
      case Kind::begin: {
        const BeginJob job = read_text<BeginJob>(x.bytes);
        begin_membership();
        return options.news->change([&](auto& board) { board.begin = job; });
      }
      case Kind::rehomed:
        return adopt(read_text<Rehomed>(x.bytes));
      case Kind::minutes:
        return note(read_text<Minutes>(x.bytes));
      case Kind::vote:
        return agree(membership::Voted{x.from, read_text<View>(x.bytes)});
      case Kind::view:
        return agree(membership::Proposed{read_text<View>(x.bytes)});
      case Kind::accept: {
        const Account account = accounts[x.from] = read_text<Account>(x.bytes);
        return agree(membership::Accepted{x.from, account.view});
      }
      case Kind::unreachable:
        return on_unreachable(x.from, static_cast<std::uint32_t>(x.number), x.bytes);
      case Kind::finish: {
        const FinishJob finish = read_text<FinishJob>(x.bytes);
        membership.reset();
        return options.news->change([&](auto& board) { board.finish = finish; });
      }
    }
  }

  // -- who is left, and who leads
  void begin_membership() {
    membership.emplace(options.index, static_cast<std::uint32_t>(options.topology->nodes.size()));
    for (const auto& [index, why] : lost) agree(membership::NodeLost{index});
  }
  void on(const Minutes& x) { send_all(Kind::minutes, text_of(x)); }
  void note(const Minutes& x) {
    if (x.key > minutes.key) minutes = x;
    if (node) tell(self, node, x);
  }
  void on(const WaitOver& x) { agree(membership::TimeUp{x.wait}); }
  void on(Account x) {
    x.newest = minutes;
    if (const auto leader = asked_by.extract(x.view); leader && peers.contains(leader.mapped()))
      send(peers.at(leader.mapped()).to.door, Kind::accept, text_of(x));
    if (succeeds && membership && x.view == membership->view().number) succeed(std::move(x));
  }
  void agree(const membership::Event& event) {
    if (!membership) return;
    for (const membership::Effect& effect : membership->step(event))
      std::visit([this](const auto& e) { apply(e); }, effect);
  }
  void apply(const membership::Vote& e) {
    if (const auto it = peers.find(e.to); it != peers.end()) send(it->second.to.door, Kind::vote, text_of(e.view));
  }
  void apply(const membership::Propose& e) {
    accounts.clear();
    for (const std::uint32_t n : e.view.members)
      if (const auto it = peers.find(n); it != peers.end()) send(it->second.to.door, Kind::view, text_of(e.view));
  }
  void apply(const membership::Accept& e) {
    asked_by[e.number] = e.to;
    ask(e.number);
  }
  void ask(std::uint64_t view) {
    if (node) return tell(self, node, AskAccount{view});
    tell(self, GateActor{self}, Account{view, {}, {}, {}});  // nobody lives here yet
  }
  void apply(const membership::Settled& e) {
    NodesGone nodes{{}, membership->view().members};
    for (const std::uint32_t n : e.gone) nodes.gone.push_back({n, lost[n]});
    if (!e.anew) return tell_node(std::move(nodes));
    succeeds = std::move(nodes);
    ask(membership->view().number);
  }
  void succeed(Account own) {
    Succession from{std::move(own.missing), std::move(own.homes), std::move(own.newest), *std::exchange(succeeds, {})};
    for (auto& [index, account] : accounts) {
      from.missing.insert(from.missing.end(), account.missing.begin(), account.missing.end());
      if (account.homes.version > from.homes.version) from.homes = std::move(account.homes);
      if (account.newest.key > from.newest.key) from.newest = std::move(account.newest);
    }
    lead(options.index);
    if (options.news) options.news->change([&](auto& board) { board.succession = std::move(from); });
  }
  void apply(const membership::Follow& e) {
    lead(e.leader);
    tell_node(Led{e.leader});
  }
  void lead(std::uint32_t leader) {
    homes->lead(leader);
    if (options.news) options.news->change([&](auto& board) { board.leader = leader; });
  }
  void apply(const membership::Part& e) { part(e.node, "the other nodes gave it up"); }
  void apply(const membership::Wait& e) {
    tell_after(self, options.topology->timeouts.node, GateActor{self}, WaitOver{e.wait});
  }
  void apply(const membership::End& e) {
    if (membership->leads()) tell_node(JobEnded{Ending::fault, e.why});
    if (options.news) options.news->change([&](auto& board) { board.over = e.why; });
  }
  template <class Message>
  void tell_node(Message message) {
    if (node) tell(self, node, std::move(message));
  }
  void join(std::uint32_t index, const PeerDoor& door) {
    peers[index].to.door = door;
    self->monitor(door);
    if (!beat_at) on(Beat{});
  }
  // Everyone says something four times in the silence that means death. Who was not awake can't judge others.
  void on(const Beat&) {
    const Duration silence = options.topology->recovery.detect_after;
    const auto now = self->clock().now();
    const bool awake = beat_at && now - *beat_at < silence;
    beat_at = now;
    std::vector<std::uint32_t> silent;
    for (auto& [index, peer] : peers) {
      if (!awake && peer.heard) peer.heard = now;
      if (peer.heard && now - *peer.heard > silence) silent.push_back(index);
      send(peer.to.door, Kind::beat);
    }
    for (const std::uint32_t index : silent) lose(index, fmt::format("it has said nothing for {}", format(silence)));
    tell_after(self, silence / 4, GateActor{self}, Beat{});
  }
  void step(const start_up::Event& event, const PeerDoor& sender = {}) {
    if (!options.start_up) return;
    std::vector<start_up::Effect> effects = options.start_up->step(event);
    options.news->change([&](auto& board) { board.waits_for = options.start_up->waits_for(); });
    for (const start_up::Effect& effect : effects) std::visit([&](const auto& e) { apply(e, sender); }, effect);
  }
  void apply(const start_up::Admit& e, const PeerDoor& sender) { join(e.node, sender); }
  void apply(const start_up::Refuse& e, const PeerDoor& sender) {
    send(sender, Kind::refused, e.why);
    options.news->change([&](auto& board) { board.refusals.push_back(e.why); });
  }
  void apply(const start_up::SendSheet& e, const PeerDoor&) { send_all(Kind::sheet, text_of(e.sheet)); }
  void apply(const start_up::Reach& e, const PeerDoor&) {
    options.news->change([&](auto& board) { board.to_reach.push_back(e); });
  }
  void apply(const start_up::MakeLanes& e, const PeerDoor&) {
    const auto it = peers.find(e.node);
    if (it == peers.end()) return;  // gone meanwhile
    try {
      it->second.to.route = options.make_route(GateActor{self}, e.node, e.secret);
    } catch (const std::exception& problem) {
      return lose(e.node, problem.what());
    }
    step(start_up::LanesMade{e.node, it->second.to.route->addresses()});
  }
  void apply(const start_up::Greet& e, const PeerDoor&) {
    send(peers.at(e.node).to.door, Kind::greeting, text_of(e.lanes));
  }
  void apply(const start_up::ConnectLanes& e, const PeerDoor&) {
    if (const auto it = peers.find(e.node); it != peers.end() && it->second.to.route)
      it->second.to.route->connect(e.to);
  }
  void apply(const start_up::SayMeshed&, const PeerDoor&) { send(peers.at(0).to.door, Kind::meshed); }
  void apply(const start_up::Ready&, const PeerDoor&) {
    options.news->change([](auto& board) { board.ready = true; });
  }

  void on_down(const caf::down_msg& down) {
    for (const auto& [index, peer] : peers)
      if (peer.to.door.address() == down.source) return lose(index, "its process is gone, or does not answer");
  }
  void lose(std::uint32_t index, const std::string& why) {
    if (!part(index, why)) return;
    // The leader may still reach it, and would wait for what the two no longer send each other.
    const auto leader = peers.find(homes->leader());
    if (leader != peers.end()) send(leader->second.to.door, Kind::unreachable, why, index);
    agree(membership::NodeLost{index});
  }
  // Nothing comes from that node any more, and nothing goes there.
  bool part(std::uint32_t index, const std::string& why) {
    auto peer = peers.extract(index);
    if (!peer) return false;
    self->demonitor(peer.mapped().to.door.address());
    lost.emplace(index, why);
    if (!options.news) return true;
    options.news->change([&](auto& board) {
      board.lost.emplace(index, why);
      board.retired.push_back(std::move(peer.mapped().to.route));
    });
    return true;
  }

  // -- two others that do not reach each other. If one of them is gone, this node notices it too, within that time;
  // else it gives up the fewest that it can.
  void on_unreachable(std::uint32_t one, std::uint32_t other, const std::string& why) {
    if (apart.empty()) tell_after(self, options.topology->recovery.detect_after, GateActor{self}, Settle{});
    apart.emplace(std::minmax(one, other), why);
  }
  void on(const Settle&) {
    for (;;) {
      std::map<std::uint32_t, std::vector<std::string>> missed;  // of those that are still here: whom they miss
      for (const auto& [pair, why] : apart) {
        const auto& [a, b] = pair;
        if (!peers.contains(a) || !peers.contains(b)) continue;
        missed[a].push_back(fmt::format("'{}' ({})", options.topology->nodes[b].name, why));
        missed[b].push_back(fmt::format("'{}' ({})", options.topology->nodes[a].name, why));
      }
      if (missed.empty()) break;
      const auto worst = std::max_element(missed.rbegin(), missed.rend(), [](const auto& x, const auto& y) {
        return x.second.size() < y.second.size();  // of several, the last one in the file
      });
      const std::string why = fmt::format("it and node {} do not reach each other, though both reach node '{}'",
                                          fmt::join(worst->second, ", "), options.topology->nodes[options.index].name);
      if (options.news) send(peers.at(worst->first).to.door, Kind::finish, text_of(FinishJob{Ending::fault, why}));
      lose(worst->first, why);
    }
    apart.clear();
  }
};

GateActor::behavior_type gate_behavior(GateActor::stateful_pointer<GateState> self, GateOptions options) {
  GateState& s = self->state;
  s.self = self;
  s.options = std::move(options);
  s.homes.emplace(*s.options.topology);
  self->set_down_handler([&s](const caf::down_msg& down) { s.on_down(down); });
  return behavior_of(GateActor{}, s);
}

}  // namespace

GateActor spawn_gate(caf::actor_system& system, GateOptions options) {
  return system.spawn(gate_behavior, std::move(options));
}

}  // namespace stagecraft
