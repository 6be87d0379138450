#include "actors/stage.hpp"

#include <algorithm>

#include "actors/faults/device_watch.hpp"
#include "actors/faults/planted.hpp"
#include "actors/held_state.hpp"
#include "actors/loans.hpp"
#include "actors/mailbox_completions.hpp"
#include "actors/new_plan.hpp"
#include "actors/stage_bodies.hpp"
#include "actors/stage_inbox.hpp"
#include "actors/stage_moves.hpp"
#include "actors/stage_notes.hpp"
#include "actors/stage_outbox.hpp"
#include "actors/stage_work.hpp"
#include "model/optimizer.hpp"
#include "planning/bug.hpp"

namespace stagecraft {

namespace {

struct StageActorState {
  static inline const char* name = "stage";

  StageActor::pointer self = nullptr;
  JobRef job;
  Place place;
  DeviceKind device = DeviceKind::cpu;
  StageWiring wiring;
  std::shared_ptr<Arena> arena;
  std::shared_ptr<const JobLayout> layout;  // in force here
  std::shared_ptr<StageModel> model;
  Stream* stream = nullptr;

  // of the present key
  Key key;
  Open open;
  bool running = false;                       // the machine is at work
  std::map<ReplicaId, ParameterParts> parts;  // from the other replicas
  StagePlan plan;
  StageMachine machine;
  StageInbox inbox;
  StageOutbox outbox;
  std::map<MicroBatch, std::shared_ptr<const Packing>> packings;
  std::map<std::uint32_t, ServiceRequest> requests;
  std::uint32_t next_request = 0;
  bool done_said = false;
  Instant began{};            // this iteration, here
  Instant moment{};           // of the event that the machine was told last
  std::uint64_t choices = 0;  // made so far: a WakeUp that was asked for before the last one comes too late
  // across keys
  HeldMessages held;
  std::optional<RunningOperator> in_flight;
  std::uint64_t tickets = 0;
  StageNotes notes;
  Instant due{};      // when the device was last free
  Loans loans;        // of parameters and moments
  bool born = false;  // initialised
  DeviceWatch watch;
  std::optional<Iteration> state;  // the parameters are those after this iteration; none: they are yet to come
  std::optional<Restore> restore;  // to be done with the Open of its key
  Key restored;                    // the one that was done last
  ArrivingLayers arriving;

  bool follows() const { return machine.plan().dispatch == Dispatch::follow; }
  bool alone() const { return job->topology.pipeline.replicas == 1; }

  // -- birth
  void on(StageWiring&& x) {
    wiring = std::move(x);
    notes.wire(wiring.recorder, wiring.monitor);
    stream = &job->world.open_stream(device, fmt::format("stage {}.{}", place.stage.value, place.replica.value),
                                     std::make_unique<MailboxCompletions<StageActor>>(job->world, StageActor{self}));
    if (!wiring.rebuilt) state = Iteration{job->start.iteration};
    submit(Service::initialise, {}, Duration{}, {}, [m = model, start = std::move(wiring.start)](Outcome&) mutable {
      m->initialise();
      if (start) m->restore(start->state);
      start.reset();
    });
  }
  void on(const NewStage& x) {
    if (x.place.stage == place.stage) wiring.replicas[x.place.replica.value] = x.stage;
  }
  void on(const NewTwin& x) { wiring.twin = x.twin; }

  // -- keys
  template <class Message>
  bool current(Message& x) {
    if ((x.key == key || planted(PlantedBug::stage_takes_any_epoch)) && running) return true;
    const Key of = x.key;
    if (of >= key) held.hold(of, std::move(x));
    return false;
  }
  void on(const NewPlan& x) {
    if (x.key > key) plan = with(std::move(plan), x);
  }
  void on(const Restore& x) {
    if (x.key < key || x.key == restored) return;
    restore = x;
    if (x.key == key && !in_flight) enter();
  }
  // Also in the midst of an iteration: then that one is abandoned, and begun again or not.
  void on(const Open& x) {
    if (x.key <= key) return;
    open = x;
    key = open.key;
    running = false;
    parts.clear();
    if (!planted(PlantedBug::stage_keeps_inputs)) inbox.clear();
    outbox.clear();
    packings.clear();
    requests.clear();
    done_said = false;
    if (open.layout == layout->layers) arriving.forget_before(key);
    if (!in_flight) enter();
  }
  // The device is idle. First the state has to be that after the iteration before the one that opens.
  void enter() {
    const Iteration wanted{key.iteration.value - 1};
    if (open.layout != layout->layers) lay_out_anew(wanted);
    if (open.restores && restored != key) {
      if (restore && restore->key == key) submit_restore();
      return;
    }
    if (!state && planted(PlantedBug::stage_trusts_first_state)) state = wanted;
    if (!state) return post(self, job->world, wiring.twin, AskState{key});
    if (*state == wanted) return proceed();
    STAGECRAFT_ASSERT(state->value + 1 == wanted.value, "the state after iteration {} can't become that after {}",
                      state->value, wanted.value);
    if (open.decision.kind == Decision::Kind::step) return submit_step(true);
    state = wanted;
    proceed();
  }
  // Layers have moved. Who has a state steps with what it was given; who has none will get or restore all of it.
  void lay_out_anew(Iteration wanted) {
    const bool keeps = state && !open.restores;
    ArrivingLayers::Taken taken = arriving.take(wanted);
    layout = std::make_shared<const JobLayout>(lay_out(job->topology, *layout, open.layout));
    model->reshape(layout->arithmetic[place.stage.value], layout->chunks[place.stage.value],
                   keeps ? std::move(taken.state) : HeldGroups{});
    for (auto& [group, gradient] : taken.gradients) model->prepare(group, std::move(gradient));
    STAGECRAFT_ASSERT(!keeps || model->complete(), "layers moved to stage {} before it held them", place.stage.value);
  }
  void proceed() {
    model->drop_prepared();
    if (alone() || planted(PlantedBug::stage_forgets_to_gather)) return begin_iteration();
    submit_step(false);  // only to copy the parameters out
  }
  void submit_restore() {
    restored = key;
    submit(Service::restore, open.due, Duration{}, {}, [m = model, from = std::exchange(restore, {})->from](Outcome&) {
      m->initialise();
      if (from) m->restore(from->state);
    });
    loans.separate();  // initialise() has made new buffers
  }
  void on(StateGiven&& x) {
    if (x.key != key || state || in_flight) return post(self, job->world, wiring.twin, LoanOver{x.key});
    submit(Service::restore, x.due, Duration{}, {}, [m = model, given = std::move(x.state)](Outcome&) {
      m->take_over(given.parameters, given.first_moments, given.second_moments);
    });
  }
  // Steps, if it is to, and copies out the blocks that this replica owns.
  void submit_step(bool steps) {
    const StepFactors factors = steps ? factors_of(*job, open.decision) : StepFactors{};
    const Duration cost = steps ? job->plan.step_time * static_cast<int>(model->groups().size()) : Duration{};
    const bool separate = steps && (loans.separate() || job->world.rarely("stage steps in new buffers"));
    submit(Service::step, open.due, cost, {}, [m = model, steps, factors, copies = !alone(), separate](Outcome& out) {
      if (separate) m->separate();
      if (steps) m->step(factors);
      m->drop_prepared();
      if (!copies) return;
      for (const GroupId g : m->groups())
        if (!m->is_alias(g)) out.parts[g] = m->owned_parameters(g);
    });
  }
  void share_parameters(const std::map<GroupId, Tensor>& own) {
    if (alone()) return begin_iteration();
    for (std::uint32_t q = 0; q < wiring.replicas.size(); ++q)
      if (q != place.replica.value)
        post(self, job->world, wiring.replicas[q], ParameterParts{key, place.replica, own, due});
    parts[place.replica] = ParameterParts{key, place.replica, {}, due};  // its own are in place
    for (auto& message : held.take(key)) redeliver(std::move(message));
    maybe_gather();
  }
  void on(ParameterParts&& x) {
    const Key of = x.key;
    if (of < key || (of == key && running)) return;
    if (of > key || !parts.contains(place.replica)) return held.hold(of, std::move(x));
    const ReplicaId from = x.from;
    parts[from] = std::move(x);
    maybe_gather();
  }
  void maybe_gather() {
    if (parts.size() < wiring.replicas.size()) return;
    Instant latest = due;
    for (const auto& [from, part] : parts) latest = std::max(latest, part.due);
    auto all = std::make_shared<std::map<ReplicaId, ParameterParts>>(std::exchange(parts, {}));
    submit(Service::gather, latest, Duration{}, {}, [m = model, all](Outcome&) {
      for (const auto& [from, part] : *all)
        for (const auto& [group, tensor] : part.parts) m->adopt_parameters(group, from, tensor);
      all->clear();
    });
  }
  void begin_iteration() {
    if (open.checkpoint) post(self, job->world, wiring.checkpointer, StateLoan{key, lend(), std::max(due, open.due)});
    if (open.last) return report();
    running = true;
    began = moment = job->event_time(std::max(due, open.due));
    model->begin(key.iteration);
    machine = StageMachine(plan);
    if (!planted(PlantedBug::stage_keeps_inputs)) inbox = StageInbox(job->last_chunk());
    if (place.stage.value == 0)
      post(self, job->world, wiring.loader, Announce{key, place.replica, std::max(due, open.due)});
    if (machine.finished())  // a replica without micro-batches
      for (const ChunkId chunk : machine.plan().chunks) send_subtrees(chunk);
    say_done();
    for (auto& message : held.take(key)) redeliver(std::move(message));
  }
  void redeliver(HeldMessages::Message message) {
    std::visit([this](auto& x) { on(std::move(x)); }, message);
  }
  void on(AskState&& x) {  // of an empty twin
    if (current(x)) post(self, job->world, wiring.twin, StateGiven{key, lend(), due});
  }
  StageState lend() {
    loans.lend(key);
    return state_of(*model, place);
  }
  void on(const LoanOver& x) { loans.back(x.key); }
  void report() {
    notes.tell_all(self);
    post(self, job->world, wiring.coordinator, StageReport{key, state_of(*model, place)});
  }

  // -- the data path
  void on(Tokens&& x) {
    if (!current(x)) return;
    packings[x.batch->micro_batch] = x.batch->packing;
    if (inbox.add(x)) act(stage_event::Arrived{x.chunk, Direction::forward, x.batch->micro_batch}, x.due);
  }
  void on(TensorMessage&& x) {
    if (!current(x)) return;
    if (!x.value.empty()) x.value.buffer()->charge_to(arena);
    packings[x.micro_batch] = x.packing;
    notes.add(*job, place, x, watch.skew());
    tell_when_full();
    if (inbox.add(x)) act(stage_event::Arrived{x.to, x.direction, x.micro_batch}, x.due);
  }
  void on(Announcement&& x) {
    if (current(x)) act(stage_event::Announced{x.to, x.direction, x.micro_batch, x.due + x.after - began}, x.due);
  }
  void on(const InstantOver& x) {
    if (x.key == key && running) choose(moment);
  }
  void on(const WakeUp& x) {
    if (x.key == key && running && x.choice == choices) arm(x.due);
  }
  void on(ReduceOrder&& x) {
    if (x.key == key && running) want({Service::reduce, x.group, std::move(x.segments), {}, x.due});
  }
  void on(TieOrder&& x) {
    if (x.key == key && running) want({Service::tie, {}, {}, std::move(x.partner), x.due});
  }
  // layers on their way
  void on(AskVote&& x) {
    if (!current(x)) return;
    want(digest_request({MoveVote::Kind::owner, x.move, key, x.lane, 0}, groups_of(model->arithmetic(), x.lane.layers),
                        due));
  }
  void on(LayersGiven&& x) {
    if (x.key < key) return;
    post(self, job->world, wiring.coordinator, MoveVote{MoveVote::Kind::holds, x.move, x.key, x.lane, 0});
    arriving.keep(std::move(x));
  }
  void want(ServiceRequest request) {
    const Instant asked = request.due;
    requests[next_request] = std::move(request);
    act(stage_event::Wanted{{next_request++}}, asked);
  }

  // `at`: when the event was due. A device that is busy beyond that notices when it is free.
  void act(const StageEvent& event, Instant at) {
    moment = job->event_time(std::max(at, due));
    for (const StageEffect& effect : machine.step(event, moment - began))
      std::visit([this](const auto& e) { apply(e); }, effect);
  }
  void choose(Instant at) {
    ++choices;
    act(stage_event::Choose{}, at);
  }
  // Virtual time: choose when every event of this instant has been seen. Real time does not pay for that.
  void arm(Instant at) {
    if (!job->world.is_virtual()) return choose(at);
    job->world.when_quiet([to = StageActor{self}, over = InstantOver{key}] { tell_from_outside(to, over); });
  }
  void apply(const stage_effect::Arm&) { arm(moment); }
  void apply(const stage_effect::Wake& e) {
    const Instant at = began + e.at;
    tell_after(self, std::max(at - job->world.now(), Duration{}), StageActor{self}, WakeUp{key, choices, at});
  }
  void apply(const stage_effect::Announce& e) {
    const bool forward = e.direction == Direction::forward;
    const ChunkId to{forward ? e.chunk.value + 1 : e.chunk.value - 1};
    const Instant start = std::max(moment, inbox.due_of(e.chunk, e.direction, e.micro_batch));
    post(self, job->world, wiring.way_out(e.chunk, e.direction),
         Announcement{key, to, e.direction, e.micro_batch, e.after, start});
  }
  // The operator that adopts starts in the same breath: the slot is free from its start on.
  void apply(const stage_effect::Adopt& e) {
    const bool forward = e.direction == Direction::forward;
    Instant start = std::max(due, inbox.due_of(e.chunk, e.direction, e.micro_batch));
    if (job->world.is_virtual()) start = job->world.now();
    if (follows()) start = std::max(start, moment);
    post(self, job->world, forward ? wiring.before.at(e.chunk) : wiring.after.at(e.chunk),
         Credit{key, e.direction, e.micro_batch, start});
  }
  void apply(const stage_effect::Emit& e) {
    post(self, job->world, wiring.way_out(e.chunk, e.direction), outbox.take(e.chunk, e.direction, e.micro_batch));
  }
  void apply(const stage_effect::Accumulated& e) {
    if (e.last) send_subtrees(e.chunk);
    say_done();
  }
  void apply(const stage_effect::Start& e) {
    if (const auto* op = std::get_if<Operator>(&e.op)) return start(*op);
    start(requests.extract(std::get<ServiceOperator>(e.op).id).mapped());
  }
  void send_subtrees(ChunkId chunk) {
    for (const GroupId g : model->groups_of(chunk))
      post(self, job->world, wiring.reducer, Subtrees{key, g, model->take_segments(g), due});
  }
  void say_done() {
    if (done_said || !machine.finished()) return;
    done_said = true;
    notes.tell_all(self);
    post(self, job->world, wiring.reducer, StageDone{key, model->loss(), due, model->groups().size()});
  }

  // -- the device
  void start(const Operator& op) {
    const bool forward = op.kind == OperatorKind::forward;
    OperatorInput input;
    const bool head = op.chunk == job->last_chunk();
    if (forward || (op.kind != OperatorKind::backward_weight && !head))
      input = inbox.take(op.chunk, forward ? Direction::forward : Direction::backward, op.micro_batch);
    const Duration cost = layout->times[op.chunk.value].of(op.kind);
    // What fills a wait was chosen for this moment, however early the device was free.
    const Instant not_before = follows() ? std::max(input.due, moment) : input.due;
    launch(RunningOperator{0, key, op, {}, {}}, not_before, cost, body_of(model, op, std::move(input)));
  }
  void start(const ServiceRequest& request) {
    const Duration cost = request.service == Service::reduce ? job->plan.reduce_time : Duration{};
    submit(request.service, request.due, cost, request.group, body_of(model, request));
  }
  template <class Body>
  void submit(Service service, Instant not_before, Duration cost, GroupId group, Body body) {
    launch(RunningOperator{0, key, std::nullopt, service, group}, not_before, cost, std::move(body));
  }
  template <class Body>
  void launch(RunningOperator flight, Instant not_before, Duration cost, Body body) {
    STAGECRAFT_ASSERT(!in_flight, "two operators on one device");
    flight.ticket = ++tickets;
    flight.since = job->world.now();
    in_flight = flight;
    auto shared = std::make_shared<Body>(std::move(body));  // std::function copies; bodies own move-only things
    if (flight.op) watch.tell(key.iteration, *flight.op, true);
    stream->submit(
        {flight.ticket, std::max(not_before, due), cost, [shared, outcome = flight.outcome] { (*shared)(*outcome); }});
  }
  void on(OperatorDone&& x) {
    STAGECRAFT_ASSERT(in_flight && in_flight->ticket == x.completion.ticket, "a completion of nothing in flight");
    if (x.completion.error.empty() || x.completion.out_of_memory) stream->retire(x.completion.ticket);
    if (watch.withholds(self, x, *in_flight)) return;
    if (x.completion.out_of_memory) return self->quit(caf::exit_reason::user_shutdown);
    if (!x.completion.error.empty()) throw Bug("an operator failed: " + x.completion.error);
    const RunningOperator flight = std::move(*in_flight);
    in_flight.reset();
    due = x.completion.ended;
    notes.add(place, flight, x.completion, watch.skew());
    tell_when_full();
    settle(flight);
    if (flight.op && flight.key == key) watch.tell(key.iteration, *flight.op, false);
    if (flight.key != key) return enter();  // an Open waited for it: its buffers were in use
    flight.op ? finished(*flight.op, *flight.outcome) : finished(flight);
  }
  // What an operator has changed, whether or not its iteration is still the present one.
  void settle(const RunningOperator& flight) {
    if (flight.op) return;
    const Iteration before{flight.key.iteration.value - 1};
    if (flight.service == Service::initialise) {
      born = true;
      notes.add({.kind = EventKind::joined, .at = job->world.now(), .place = place}, watch.skew());
      notes.tell_all(self);
      post(self, job->world, wiring.coordinator, Joined{place});
    }
    if (flight.service == Service::step) {
      state = before;
      watch.tell(before, RunEvent::stepped);
    }
    if (flight.service != Service::restore) return;
    state = before;
    if (wiring.twin) post(self, job->world, wiring.twin, LoanOver{flight.key});
  }
  void finished(const Operator& op, Outcome& outcome) {
    const auto way = outbox.way_of(op);
    if (!way) return act(stage_event::Finished{op}, due);
    outbox.keep(op, TensorMessage{key, way->to, way->direction, op.micro_batch, packings.at(op.micro_batch),
                                  std::move(outcome.tensor), due});
    if (!outbox.holds_up(op, *way)) return act(stage_event::Finished{op}, due);
    outbox.wait_with(op, due);
    ask_place();
  }
  // Over a link that may hold it up, the device stands still until its output has a place there.
  void ask_place() {
    const auto& [op, ready] = *outbox.waiting();
    post(self, job->world, wiring.way_out(op.chunk, outbox.way_of(op)->direction),
         AskPlace{key, op.micro_batch, ready, due});
  }
  void on(const PlaceGiven& x) {
    if (x.key != key || !outbox.waiting()) return;
    if (x.has_come) return ask_place();  // others may have taken it
    if (x.at <= due) return act(stage_event::Finished{outbox.go_on(due)}, due);
    due = x.at;
    tell_after(self, std::max(x.at - job->world.now(), Duration{}), StageActor{self}, PlaceGiven{key, x.at, true});
  }
  void finished(const RunningOperator& flight) {
    switch (flight.service) {
      case Service::initialise:
        return;
      case Service::restore:
        return enter();
      case Service::step:
        return share_parameters(flight.outcome->parts);
      case Service::gather:
        return begin_iteration();
      case Service::reduce:
        post(self, job->world, wiring.reducer,
             Reduced{key, flight.group, flight.outcome->square_sum, model->prepared(flight.group), due});
        watch.tell(key.iteration, RunEvent::reduce_done);
        return act(stage_event::Finished{ServiceOperator{}}, due);
      case Service::tie:
        post(self, job->world, wiring.reducer,
             Tied{key, model->tied_group(), flight.outcome->square_sum, model->prepared(model->tied_group()), due});
        return act(stage_event::Finished{ServiceOperator{}}, due);
      case Service::digest:
        post(self, job->world, wiring.coordinator, *flight.outcome->vote);
        return act(stage_event::Finished{ServiceOperator{}}, due);
    }
  }

  // -- the watch
  void on(const Explain&) {
    notes.tell_all(self);
    Explanation answer{.place = place, .joined = born, .idle = job->event_time(job->world.now()) - moment};
    if (in_flight) {
      answer.busy = std::max(job->world.now() - in_flight->since, Duration{1});
      answer.text = fmt::format("its device has been busy with {} for {}", to_text(*in_flight), format(answer.busy));
    } else if (!running) {
      answer.text = !state      ? "it waits for the state that its twin holds"
                    : open.last ? "it waits to report"
                                : "it waits for an Open or for its replicas' parameters";
    } else {
      answer.text = outbox.waiting() ? outbox.explain() : machine.explain();
      if (const auto chunk = machine.awaits()) answer.waits_for = {job->stage_of(*chunk)};
    }
    post(self, job->world, wiring.coordinator, std::move(answer));
  }
  void tell_when_full() {
    if (!running || notes.full() || job->world.rarely("stage tells each event")) notes.tell_all(self);
  }
};

StageActor::behavior_type stage_behavior(StageActor::stateful_pointer<StageActorState> self, JobRef job, Place place,
                                         const DeviceSpec& device) {
  StageActorState& s = self->state;
  s.self = self;
  s.job = job;
  s.place = place;
  s.watch = DeviceWatch(*job, place);
  s.device = device.kind;
  s.plan = s.job->plan_of(place);
  s.outbox = StageOutbox(*job, place);
  s.arena = Arena::make(fmt::format("stage {}.{}", place.stage.value, place.replica.value), device.memory);
  s.layout = std::shared_ptr<const JobLayout>(job, &job->plan);
  s.model = std::make_shared<StageModel>(s.layout->arithmetic[place.stage.value], s.layout->share(job->topology, place),
                                         s.arena, job->controls);
  return behavior_of(StageActor{}, s);
}

}  // namespace

StageActor spawn_stage(JobRef job, Place place, const DeviceSpec& device) {
  caf::actor_system& system = job->world.system();
  return system.spawn(stage_behavior, std::move(job), place, device);
}

}  // namespace stagecraft
