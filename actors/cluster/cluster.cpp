#include "actors/cluster/cluster.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <iterator>

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

Cluster::~Cluster() {
  caf::anon_send_exit(gate_, caf::exit_reason::kill);
  hang_up_on_the_silent(world_.system(), address_, {});  // CAF would wait for them
}

// Whoever belongs to the job says something four times in `detect_after`. Those that came just before the door was
// closed are looked at once more.
void Cluster::watch_the_door() {
  const Duration silence = 2 * topology_.recovery.detect_after;
  const Instant now = world_.now();
  if (now < look_again_ || (closed_ && now > *closed_ + 2 * silence)) return;
  look_again_ = now + silence / 4;
  hang_up_on_the_silent(world_.system(), address_, silence);
}

// One that can't be reached may be busy: it is tried again until the start-up ends.
bool Cluster::reach(std::uint32_t node, Attempt& attempt, const std::function<void(const std::string&)>& failed) {
  if (!attempt.knock) {
    if (world_.now() < attempt.again) return false;
    attempt.knock.emplace(world_.system(), attempt.at, [&world = world_] { world.news(); });
  }
  const auto answer = attempt.knock->answer();
  if (!answer) return false;
  if (const auto* door = std::get_if<PeerDoor>(&*answer)) {
    tell_from_outside(gate_, Connected{node, *door});
    return true;
  }
  failed(std::get<std::string>(*answer));
  attempt.knock.reset();
  attempt.again = world_.now() + try_again_after;
  return false;
}

void Cluster::reach_others(const GateNews::Board& board) {
  for (const start_up::Reach& to : board.to_reach) to_reach_[to.node].at = parse_network_address(to.address);
  for (auto it = to_reach_.begin(); it != to_reach_.end();)
    it = reach(it->first, it->second, [](const std::string&) {}) ? to_reach_.erase(it) : std::next(it);
}

std::string Cluster::unreached() const {
  std::string text;
  for (const auto& [node, attempt] : to_reach_)
    text += fmt::format("; node '{}' does not answer at {}", topology_.nodes[node].name, to_text(attempt.at));
  return text;
}

std::string Cluster::no_answer(const NetworkAddress& leader, const std::set<std::string>& failures) const {
  if (failures.empty())  // the first attempt is still under way
    return fmt::format(
        "the first node does not answer within {}: nothing comes back from {}; does the network, or a firewall, let "
        "this node through to it?",
        format(topology_.timeouts.stage), to_text(leader));
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
    watch_the_door();
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
  closed_ = job.now = world_.now();
  tell_from_outside(gate_, job);
}

BeginJob Cluster::join(const NetworkAddress& leader, const RunOptions::StartUp& patience) {
  const Instant deadline = world_.now() + topology_.timeouts.stage;
  const auto expired = [&] { return world_.now() > deadline; };
  std::set<std::string> failures;  // each kind once
  Attempt first{leader, {}, {}};
  bool reached = false;
  world_.drive([&] {
    reached = reach(0, first, [&](const std::string& why) { failures.insert(why); });
    if (const auto why = patience.ends()) give_up(*why);
    return reached || expired();
  });
  if (!reached) give_up(no_answer(leader, failures));
  tell_from_outside(gate_, hello_of(world_, topology_, index_, to_text(address_)));
  std::optional<BeginJob> begun;
  world_.drive([&] {
    watch_the_door();
    const GateNews::Board board = news_->read();
    if (board.refused) give_up("the first node does not let it in: " + *board.refused);
    if (board.finish) give_up("the first node ended: " + board.finish->reason);
    for (const auto& [node, why] : board.lost)
      give_up(fmt::format("node '{}' was lost during the start-up: {}", topology_.nodes[node].name, why));
    if (const auto why = patience.ends()) give_up(*why);
    reach_others(board);
    if (expired())
      give_up(fmt::format("the start-up did not end within {}: {}{}; see timeouts.stage",
                          format(topology_.timeouts.stage), board.waits_for, unreached()));
    begun = board.begin;
    return begun.has_value();
  });
  close_gate(world_.system(), gate_, address_);
  world_.set_clock(begun->now);
  closed_ = look_again_ = world_.now();
  return *begun;
}

GateNews::Board Cluster::look() {
  GateNews::Board board = news_->read();
  leader_ = board.leader;
  if (board.succession) succession_ = std::move(board.succession);
  return board;
}

std::optional<FinishJob> Cluster::finished() {
  watch_the_door();
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
  watch_the_door();
  std::vector<std::string> texts;
  for (const auto& [node, why] : look().lost)
    if (told_.insert(node).second)
      texts.push_back(fmt::format("node '{}' is lost: {}", topology_.nodes[node].name, why));
  return texts;
}

void Cluster::finish(const FinishJob& end) {
  tell_from_outside(gate_, end);
  const Instant deadline = world_.now() + 10s;  // on a busy machine; who is silent is given up before
  world_.drive([&] { return look().lost.size() + 1 >= topology_.nodes.size() || world_.now() > deadline; });
}

}  // namespace stagecraft
