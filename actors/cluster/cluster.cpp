#include "actors/cluster/cluster.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include "actors/cluster/lane_route.hpp"
#include "config/load_topology.hpp"
#include "transport/secret.hpp"

namespace stagecraft {

using namespace std::chrono_literals;

namespace {

constexpr Duration try_again_after = 250ms;

std::string fingerprint(Disk& disk) {
  const auto program = disk.read("/proc/self/exe");
  if (!program) return "unknown";
  const XXH128_hash_t hash = XXH3_128bits(program.value().data(), program.value().size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

StartUpMachine start_up_of(World& world, const Topology& topology, std::uint32_t index) {
  const auto nodes = static_cast<std::uint32_t>(topology.nodes.size());
  if (index > 0) return {index, nodes};
  // Its own address does not matter: the others have reached it.
  return {Roster(topology, hello_of(world, topology, 0, topology.nodes[0].listen)), nodes, make_secret()};
}

}  // namespace

Hello hello_of(World& world, const Topology& topology, std::uint32_t index, const std::string& address) {
  Topology same = topology;
  same.file.clear();
  return {topology.nodes[index].name, address, fingerprint(world.disk()), describe(same), world.calendar_s()};
}

Cluster::Cluster(World& world, const Topology& topology, std::uint32_t index)
    : world_(world), topology_(topology), index_(index), news_(std::make_shared<GateNews>([&world] { world.news(); })) {
  GateOptions options{&topology_, index_, start_up_of(world, topology, index), news_, {}};
  options.make_route = [&topology, index](GateActor gate, std::uint32_t node, const std::string& secret) {
    return make_lane_route(std::move(gate), topology, index, node, secret);
  };
  news_->change([&](auto& board) { board.waits_for = options.start_up->waits_for(); });
  gate_ = spawn_gate(world.system(), std::move(options));
  auto published = publish_gate(world.system(), gate_, parse_network_address(topology.nodes[index].listen));
  if (const auto* why = std::get_if<std::string>(&published)) {
    caf::anon_send_exit(gate_, caf::exit_reason::kill);
    throw CannotStart(fmt::format("node '{}' {}", topology.nodes[index].name, *why));
  }
  address_ = std::get<NetworkAddress>(published);
}

Cluster::~Cluster() { caf::anon_send_exit(gate_, caf::exit_reason::kill); }

// One that can't be reached may be busy: it is tried again until the start-up ends.
void Cluster::reach_others(const GateNews::Board& board, Instant deadline) {
  for (const start_up::Reach& reach : board.to_reach) to_reach_[reach.node] = reach.address;
  if (world_.now() < reach_again_) return;
  for (auto it = to_reach_.begin(); it != to_reach_.end();) {
    const auto door = reach_gate(world_.system(), parse_network_address(it->second));
    if (const auto* reached = std::get_if<PeerDoor>(&door)) {
      tell_from_outside(gate_, Connected{it->first, *reached});
      it = to_reach_.erase(it);
      continue;
    }
    if (world_.now() > deadline)
      give_up(fmt::format("node '{}' {}", topology_.nodes[it->first].name, std::get<std::string>(door)));
    reach_again_ = world_.now() + try_again_after;
    ++it;
  }
}

std::string Cluster::no_answer(const std::set<std::string>& failures) const {
  std::string text = fmt::format("the first node does not answer within {}: {}", format(topology_.timeouts.stage),
                                 fmt::join(failures, "; "));
  if (text.find("handshake") != std::string::npos)
    text +=
        "; somebody is there and hangs up: are the certificates of both of one authority (ca.pem), or is one of them "
        "without?";
  return text + fmt::format("; is `stagecraft node {} --name {}` running?", topology_.file, topology_.nodes[0].name);
}

void Cluster::give_up(const std::string& why) const {
  throw CannotStart(fmt::format("node '{}' cannot start: {}", topology_.nodes[index_].name, why));
}

void Cluster::gather(const RunOptions::StartUp& patience) {
  const Instant deadline = world_.now() + topology_.timeouts.stage;
  std::string said;
  Instant say_at = world_.now() + 2s;  // not while all goes well
  world_.drive([&] {
    const GateNews::Board board = news_->read();
    for (const std::string& refusal : board.refusals) patience.say("refused: " + refusal);
    for (const auto& [node, why] : board.lost)
      give_up(fmt::format("node '{}' was lost during the start-up: {}", topology_.nodes[node].name, why));
    if (board.ready) return true;
    if (const auto why = patience.ends()) give_up(*why);
    if (world_.now() > deadline)
      give_up(fmt::format("the start-up did not end within {}: {}; see timeouts.stage",
                          format(topology_.timeouts.stage), board.waits_for));
    if (world_.now() > say_at && board.waits_for != said) {
      patience.say("waiting: " + (said = board.waits_for));
      say_at = world_.now() + 2s;
    }
    return false;
  });
}

// Whoever belongs to the job is there: from now on nothing listens.
void Cluster::begin(BeginJob job) {
  close_gate(world_.system(), gate_, address_);
  job.now = world_.now();
  tell_from_outside(gate_, job);
}

BeginJob Cluster::join(const NetworkAddress& leader, const RunOptions::StartUp& patience) {
  const Instant deadline = world_.now() + topology_.timeouts.stage;
  const auto expired = [&] { return world_.now() > deadline; };
  std::variant<PeerDoor, std::string> first = std::string();
  std::set<std::string> failures;  // each kind once
  Instant next{};
  world_.drive([&] {
    if (world_.now() < next) return false;
    first = reach_gate(world_.system(), leader);
    next = world_.now() + try_again_after;
    if (const auto* failure = std::get_if<std::string>(&first)) failures.insert(*failure);
    if (const auto why = patience.ends()) give_up(*why);
    return std::holds_alternative<PeerDoor>(first) || expired();
  });
  if (std::holds_alternative<std::string>(first)) give_up(no_answer(failures));
  tell_from_outside(gate_, Connected{0, std::get<PeerDoor>(first)});
  tell_from_outside(gate_, hello_of(world_, topology_, index_, to_text(address_)));
  std::optional<BeginJob> begun;
  world_.drive([&] {
    const GateNews::Board board = news_->read();
    if (board.refused) give_up("the first node does not let it in: " + *board.refused);
    if (board.finish) give_up("the first node ended: " + board.finish->reason);
    for (const auto& [node, why] : board.lost)
      give_up(fmt::format("node '{}' was lost during the start-up: {}", topology_.nodes[node].name, why));
    if (const auto why = patience.ends()) give_up(*why);
    reach_others(board, deadline);
    if (expired())
      give_up(fmt::format("the start-up did not end within {}: {}; see timeouts.stage",
                          format(topology_.timeouts.stage), board.waits_for));
    begun = board.begin;
    return begun.has_value();
  });
  close_gate(world_.system(), gate_, address_);
  world_.set_clock(begun->now);
  return *begun;
}

GateNews::Board Cluster::look() {
  GateNews::Board board = news_->read();
  leader_ = board.leader;
  if (board.succession) succession_ = std::move(board.succession);
  return board;
}

std::optional<FinishJob> Cluster::finished() {
  const GateNews::Board board = look();
  if (board.finish) return board.finish;
  if (board.over)
    return FinishJob{Ending::fault, fmt::format("node '{}': {}", topology_.nodes[index_].name, *board.over)};
  return std::nullopt;
}

std::optional<Succession> Cluster::succession() {
  look();
  return std::exchange(succession_, std::nullopt);
}

std::vector<std::string> Cluster::newly_lost() {
  std::vector<std::string> texts;
  for (const auto& [node, why] : look().lost)
    if (told_.insert(node).second)
      texts.push_back(fmt::format("node '{}' is lost: {}", topology_.nodes[node].name, why));
  return texts;
}

void Cluster::finish(const FinishJob& end) {
  tell_from_outside(gate_, end);
  const Instant deadline = world_.now() + 2s;
  world_.drive([&] { return look().lost.size() + 1 >= topology_.nodes.size() || world_.now() > deadline; });
}

}  // namespace stagecraft
