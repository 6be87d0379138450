#include "actors/link.hpp"

#include <set>

#include "actors/faults/planted.hpp"
#include "actors/link_stamps.hpp"
#include "config/load_topology.hpp"
#include "planning/bug.hpp"
#include "planning/link_machine.hpp"

namespace stagecraft {

namespace {

enum class ParcelKind : std::uint8_t { tensor, announcement };

// What travels as bytes. The tensor itself is the parcel's payload.
struct LinkHeader {
  ParcelKind kind = ParcelKind::tensor;
  Key key;
  ChunkId to;
  Direction direction = Direction::forward;
  MicroBatch micro_batch;
  std::vector<std::uint32_t> starts;  // of a tensor's documents
  Instant sent{};
  Duration after{};  // until the tensor will be sent
};
STAGECRAFT_WIRE(LinkHeader, x.kind, x.key, x.to, x.direction, x.micro_batch, x.starts, x.sent, x.after)

// Brings parcels from the channel into the mailbox of the far end.
class MailboxArrivals final : public Arrivals {
 public:
  MailboxArrivals(LinkActor from, LinkActor to) : from_(std::move(from)), to_(std::move(to)) {}
  void arrived(Parcel parcel, Duration delay) override {
    tell_from_outside(to_, ParcelMessage{std::move(parcel)}, delay);
  }
  void let_go() override { tell_from_outside(from_, LetGo{}); }

 private:
  LinkActor from_, to_;
};

struct LinkState {
  static inline const char* name = "link";

  LinkActor::pointer self = nullptr;
  JobRef job;
  RecorderActor recorder;
  std::uint32_t boundary = 0;
  ReplicaId replica;
  LinkSide side = LinkSide::lower;

  StageActor stage;
  LinkActor peer;
  MonitorActor monitor;
  LinkStamps stamps;
  std::unique_ptr<MailboxArrivals> arrivals;
  std::unique_ptr<Channel> channel;
  std::unique_ptr<Channel> detour;  // none: there is no other way
  bool goes_round = false;          // over the detour
  bool passes_again = false;        // the link does: from the next iteration on nobody goes round
  bool watched = false;             // a WatchLink is under way
  Key key;
  LinkMachine machine;                          // the far side's slots
  std::set<MicroBatch> out;                     // sent, and their credits are not back yet
  std::map<MicroBatch, TensorMessage> waiting;  // for a slot
  std::multiset<Instant> slots;                 // the far side's free ones: since when
  RouteSpec routes;
  Route route = Route::direct;
  std::optional<NewRoute> next_route;
  std::map<MicroBatch, Instant> ready;  // direct: since when an output had been there when it asked for a place
  std::optional<AskPlace> asked;        // and not answered yet
  Duration held{};                      // all together, in this iteration

  Direction outgoing() const { return side == LinkSide::lower ? Direction::forward : Direction::backward; }
  StageId own_stage() const { return job->stage_of({side == LinkSide::lower ? boundary : boundary + 1}); }
  StageId far_stage() const { return job->stage_of({side == LinkSide::lower ? boundary + 1 : boundary}); }

  void on(const NewStage& x) {
    if (x.place == Place{own_stage(), replica}) stage = x.stage;
  }

  // The first message of a newer key resets the link; older keys are dropped.
  bool fresh(Key k) {
    if (planted(PlantedBug::link_keeps_slots) && k > key && k.iteration == key.iteration) key = k;
    if (k > key) {
      const PipelinePlan& plan = job->plan.replicas[replica.value];
      // What an aborted iteration left on its way comes to nothing.
      if (k.epoch == key.epoch) check_for_leaks();
      tell_stamps();
      key = k;
      out.clear();
      waiting.clear();
      ready.clear();
      asked.reset();
      if (std::exchange(passes_again, false)) goes_round = false;
      change_route();
      const StagePlan& stage_plan = plan.stages.front();
      machine = LinkMachine(plan.credits, stage_plan.first, stage_plan.micro_batches);
      slots.clear();
      for (std::uint32_t c = 0; c < plan.credits; ++c) slots.insert(Instant{});
    }
    return k == key;
  }
  void tell_stamps() {
    RouteReading reading{{}, stamps.round_trip()};
    if (!ready.empty()) reading.held_up = std::exchange(held, Duration{}) / static_cast<std::int64_t>(ready.size());
    std::vector<MessageStamps> complete = stamps.take();
    if (!complete.empty())
      tell(self, monitor, LinkTimings{key, replica, boundary, outgoing(), route, reading, std::move(complete)});
  }
  void check_for_leaks() {
    if (machine.credits() == 0 || machine.quiet()) return;
    if (job->world.faults() && job->world.faults()->loses_messages()) return;
    Event leak{EventKind::violation, job->world.now(), {}, Place{own_stage(), replica}, key, {}, outgoing(), {}};
    leak.text = fmt::format("credit_leak: boundary {}: {} of {} slots back, {} tensors waiting", boundary,
                            machine.free(), machine.credits(), machine.waiting());
    tell(self, recorder, std::move(leak));
  }

  void on(const LinkWiring& x) {
    stage = x.stage;
    peer = x.peer;
    monitor = x.monitor;
    routes = route_spec(job->topology, own_stage(), far_stage(), outgoing());
    route = routes.first();
    const LinkCost cost = link_cost(job->topology, own_stage(), far_stage(), outgoing());
    const bool crosses =
        job->topology.seat({own_stage(), replica}).node != job->topology.seat({far_stage(), replica}).node;
    arrivals = std::make_unique<MailboxArrivals>(LinkActor{self}, peer);
    FaultBoard* faults = job->world.faults();
    channel = job->world.open_channel(
        cost, crosses, *arrivals, faults ? &faults->weather(own_stage(), far_stage(), outgoing(), replica) : nullptr);
    if (routes.detour == Duration{}) return;
    LinkCost around = over(Route::delegated, routes, cost);
    around.latency = routes.detour;
    detour = job->world.open_channel(around, crosses, *arrivals, nullptr);
  }
  Channel& way() { return goes_round ? *detour : *channel; }

  void on(TensorMessage&& x) {
    if (!fresh(x.key)) return;
    STAGECRAFT_ASSERT(x.direction == outgoing(), "a tensor went to the wrong end of boundary {}", boundary);
    const MicroBatch m = x.micro_batch;
    const auto asked_since = ready.find(m);
    stamps.handed_over(m, job->event_time(asked_since == ready.end() ? x.due : asked_since->second),
                       x.value.buffer()->charged());
    waiting.emplace(m, std::move(x));
    send(machine.offer(m));
  }
  // From the stage: a slot of this end is free, tell the other. From the other end: one of its slots is.
  void on(Credit&& x) {
    if (x.direction != outgoing()) {
      stamps.fill_in(x);
      return post(self, job->world, peer, x);
    }
    if (!fresh(x.key) || (out.erase(x.micro_batch) == 0 && !planted(PlantedBug::link_counts_credits_twice)))
      return;  // it came twice
    stamps.credited(x, job->event_time(x.due));
    slots.insert(x.due);
    send(machine.credit());
  }
  // Of a direct route: the device of the stage stands still until this is answered.
  void on(const AskPlace& x) {
    if (!fresh(x.key)) return;
    ready.emplace(x.micro_batch, x.ready);
    asked = x;
    answer();
  }
  void on(const LetGo&) {
    passes_again = goes_round;
    answer();
  }
  void watch(Duration after) {
    if (detour && !goes_round && !std::exchange(watched, true)) tell_after(self, after, LinkActor{self}, WatchLink{});
  }
  void on(const WatchLink&) {
    watched = false;
    const auto since = channel->held_since();
    if (!since || goes_round) return;
    const Duration held_for = job->world.now() - *since;
    if (held_for < routes.detour_after) return watch(routes.detour_after - held_for);
    go_round(held_for);
  }
  // What the link did not let pass is sent again, another way; it was never there, so it can't come twice.
  void go_round(Duration held_for) {
    std::vector<Parcel> parcels = channel->take_back();
    goes_round = true;
    passes_again = false;
    Event event{.kind = EventKind::rerouted, .at = job->world.now(), .key = key};
    event.text = fmt::format(
        "boundary {}: the link from stage {} to stage {} has let nothing pass for {}; {} {} sent again over "
        "another way that takes {}",
        boundary, own_stage().value, far_stage().value, format(held_for), parcels.size(),
        parcels.size() == 1 ? "tensor is" : "tensors are", format(routes.detour));
    tell(self, recorder, std::move(event));
    for (Parcel& parcel : parcels) {
      parcel.due = std::max(parcel.due, job->world.now());
      detour->send(std::move(parcel));
    }
    answer();
  }
  void answer() {
    const auto at = asked ? way().admits(asked->now) : std::nullopt;
    if (!at) return;
    post(self, job->world, stage, PlaceGiven{asked->key, *at});
    held += std::max(*at - asked->now, Duration{});
    asked.reset();
  }
  void on(const NewRoute& x) { next_route = x; }
  // Between two iterations nothing is on its way.
  void change_route() {
    if (!next_route || key.iteration < next_route->from) return;
    route = next_route->route;
    channel->change(over(route, routes, link_cost(job->topology, own_stage(), far_stage(), outgoing())));
    next_route.reset();
  }
  void send(const std::vector<MicroBatch>& go) {
    for (const MicroBatch m : go) {
      auto node = waiting.extract(m);
      TensorMessage& x = node.mapped();
      out.insert(m);
      x.due = std::max(x.due, *slots.begin());  // it leaves when it is there and the slot that it takes is free
      slots.erase(slots.begin());
      if (job->world.is_virtual()) x.due = job->world.now();
      stamps.left(m, job->event_time(x.due));
      LinkHeader header{ParcelKind::tensor,     x.key, x.to, x.direction, x.micro_batch, x.packing->starts,
                        job->event_time(x.due), {}};
      way().send({to_bytes(header), std::move(x.value), x.due});
    }
    if (!go.empty()) watch(routes.detour_after);
  }
  // Needs no slot and no place on the wire.
  void on(const Announcement& x) {
    if (!fresh(x.key)) return;
    stamps.announced(x.micro_batch, job->event_time(x.due));
    LinkHeader header{ParcelKind::announcement, x.key, x.to, x.direction, x.micro_batch, {}, {}, x.after};
    way().tell({to_bytes(header), {}, job->event_time(x.due)});
  }
  void on(ParcelMessage&& x) {
    auto header = from_bytes<LinkHeader>(x.parcel.header);
    const Instant now = job->event_time(x.parcel.due);
    if (header.kind == ParcelKind::announcement) {
      stamps.announcement_came(header.key, header.micro_batch, now);
      const Announcement told{header.key, header.to, header.direction, header.micro_batch, header.after, now};
      // Who hears of an operator has chosen in the instant in which that operator was.
      if (job->world.is_virtual()) return tell_after(self, Duration{0}, stage, told);
      return post(self, job->world, stage, told);
    }
    stamps.tensor_came(header.key, header.micro_batch, now);
    auto packing = std::make_shared<Packing>();
    packing->starts = std::move(header.starts);
    post(self, job->world, stage,
         TensorMessage{header.key, header.to, header.direction, header.micro_batch, std::move(packing),
                       std::move(x.parcel.payload), x.parcel.due, header.sent});
  }
};

LinkActor::behavior_type link_behavior(LinkActor::stateful_pointer<LinkState> self, JobRef job, RecorderActor recorder,
                                       std::uint32_t boundary, ReplicaId replica, LinkSide side) {
  LinkState& s = self->state;
  s.self = self;
  s.job = std::move(job);
  s.recorder = std::move(recorder);
  s.boundary = boundary;
  s.replica = replica;
  s.side = side;
  return behavior_of(LinkActor{}, s);
}

}  // namespace

LinkActor spawn_link(JobRef job, RecorderActor recorder, std::uint32_t boundary, ReplicaId replica, LinkSide side) {
  caf::actor_system& system = job->world.system();
  return system.spawn(link_behavior, std::move(job), std::move(recorder), boundary, replica, side);
}

}  // namespace stagecraft
