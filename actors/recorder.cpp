#include "actors/recorder.hpp"

#include <fmt/format.h>

#include <vector>

#include "actors/chrome_trace.hpp"
#include "actors/event_ring.hpp"

namespace stagecraft {

namespace {

constexpr std::size_t ring_size = 50'000;                  // events for the trace, about 8 MiB; 25 MB of JSON at most
constexpr std::size_t findings_kept = 100;                 // of the straggler detector
constexpr std::size_t decisions_kept = 200;                // for whoever asks why, however long ago they were
constexpr std::size_t batch = 64U << 10;                   // bytes of log lines that go to the disk at once
constexpr std::uint64_t operator_log_limit = 64ULL << 20;  // bytes of log lines about single operators and tensors

// Which operators of an iteration ran, and whether each ran once: a bit for each that there can be.
struct OperatorCount {
  std::vector<bool> ran;
  std::uint64_t forward = 0, backward = 0, weight = 0;
};

struct RecorderState {
  static inline const char* name = "recorder";

  RecorderActor::pointer self = nullptr;
  JobRef job;
  NodeActor node;
  std::uint64_t hash = 0, count = 0, logged = 0, dropped = 0;
  std::vector<std::string> violations;  // the first few
  std::uint64_t losses = 0, begun_again = 0;
  Key newest;                      // that was opened
  std::map<Place, Key> newest_at;  // that a stage has told of
  EventRing ring{ring_size}, decisions{decisions_kept}, findings{findings_kept};
  std::string lines;                    // of the log, not yet on their way
  std::uint64_t unsent = 0;             // how many
  std::map<Key, OperatorCount> counts;  // of at most three iterations, each attempt by itself
  std::map<Iteration, Key> decided;     // which attempt was
  Iteration committed;

  void on(const Events& x) {
    for (const Event& event : x.events) on(event);
  }
  void on(const Event& event) {
    hash = keyed(hash, hash_of(event));
    ++count;
    if (event.kind == EventKind::violation && violations.size() < 10) violations.push_back(event.text);
    if (event.kind == EventKind::ran && event.op) count_operator(event);
    if (event.kind == EventKind::committed) on_commit(event.key);
    if (event.kind == EventKind::opened) on_open(event.key);
    if (event.kind == EventKind::lost && event.place) newest_at.erase(*event.place);
    if (event.place && event.key.epoch.value > 0) check_order(event);
    losses += event.kind == EventKind::lost;
    begun_again += event.kind == EventKind::begun_again;
    write(event);
    ring.push(count, event);
    if (event.kind == EventKind::straggler) findings.push(count, event);
    if (is_decision(event)) decisions.push(count, event);
  }
  // Epochs only grow, and each opening has a key of its own.
  void on_open(Key key) {
    if (key <= newest)
      violate(key, fmt::format("epoch_went_back: epoch {} iteration {} was opened after epoch {} iteration {}",
                               key.epoch.value, key.iteration.value, newest.epoch.value, newest.iteration.value));
    newest = std::max(newest, key);
  }
  // What a stage tells comes in its order: once it has acted under a key, it acts under no older one. It steps with the
  // Open that tells it of the commit, never before.
  void check_order(const Event& event) {
    Key& last = newest_at[*event.place];
    if (event.kind == EventKind::ran && event.key < last)
      violate(event.key, fmt::format("stale_epoch_accepted: stage {} of replica {} ran {} of epoch {} iteration {} "
                                     "under epoch {} iteration {}",
                                     event.place->stage.value, event.place->replica.value,
                                     event.op ? to_text(*event.op) : event.text, event.key.epoch.value,
                                     event.key.iteration.value, last.epoch.value, last.iteration.value));
    if (event.kind != EventKind::sent) last = std::max(last, event.key);
    const Iteration before{event.key.iteration.value - 1};
    if (event.kind == EventKind::ran && !event.op && event.text == "step" && before > committed &&
        before.value > job->start.iteration)
      violate(event.key, fmt::format("step_before_commit: stage {} of replica {} stepped iteration {}, which is not "
                                     "decided",
                                     event.place->stage.value, event.place->replica.value, before.value));
  }
  void count_operator(const Event& event) {
    OperatorCount& c = counts[event.key];
    const Operator& op = *event.op;
    const std::size_t chunks = job->total_chunks(), kinds = 4;
    if (c.ran.empty()) c.ran.resize(job->topology.training.micro_batches * chunks * kinds);
    // A micro-batch is of one replica, so its number names that too.
    std::vector<bool>::reference ran =
        c.ran.at((op.micro_batch.value * chunks + op.chunk.value) * kinds + static_cast<std::size_t>(op.kind));
    if (ran)
      violate(event.key, fmt::format("micro_batch_twice: operator {} of replica {} ran twice", to_text(op),
                                     event.place->replica.value));
    ran = true;
    c.forward += op.kind == OperatorKind::forward;
    c.backward += op.kind == OperatorKind::backward_input || op.kind == OperatorKind::backward;
    c.weight += op.kind == OperatorKind::backward_weight || op.kind == OperatorKind::backward;
  }
  // Events of different actors overtake one another, so an iteration is checked when the next but one is decided.
  void on_commit(Key key) {
    committed = key.iteration;
    decided[key.iteration] = key;
    while (!decided.empty() && decided.begin()->first.value + 2 <= committed.value) check_first();
  }
  void check_first() {
    const Key key = decided.begin()->second;
    const OperatorCount& c = counts[key];
    const std::uint64_t expected = std::uint64_t{job->topology.training.micro_batches} * job->total_chunks();
    if (c.forward != expected || c.backward != expected || c.weight != expected)
      violate({{}, key.iteration},
              fmt::format("micro_batch_lost: iteration {} ran {} forwards, {} backwards, {} weight gradients "
                          "instead of {} each",
                          key.iteration.value, c.forward, c.backward, c.weight, expected));
    std::erase_if(counts, [&](const auto& x) { return x.first.iteration <= key.iteration; });
    decided.erase(key.iteration);
  }
  void violate(Key key, std::string text) {
    on(Event{.kind = EventKind::violation, .at = job->world.now(), .key = key, .text = std::move(text)});
  }
  void write(const Event& event) {
    if (job->log_path.empty()) return;
    const bool small =
        event.kind == EventKind::ran || event.kind == EventKind::sent || event.kind == EventKind::arrived;
    if (small && logged > operator_log_limit) return void(++dropped);
    const std::size_t before = lines.size();
    append_json_line(lines, event);
    ++unsent;
    if (small) logged += lines.size() - before;
    if (!small || lines.size() > batch) send_lines();
  }
  // Operators go to the disk by the iteration: each write wakes a thread.
  void send_lines() {
    if (lines.empty()) return;
    if (!job->world.log(job->log_path, std::exchange(lines, {}))) dropped += unsent;
    unsent = 0;
  }
  void on(const AskEvents& x) {
    const Instant now = job->world.now();
    tell(self, node, x.decisions ? find_decisions(decisions, findings, x, now) : ring.find(x, now));
  }
  void on(const CloseLog&) {
    const Key last = decided.contains(committed) ? decided.at(committed) : Key{};
    while (!decided.empty()) check_first();
    send_lines();
    LogClosed closed;
    const std::vector<Event> events = ring.all();
    for (const Event& e : events)
      if (e.kind == EventKind::ran && e.key == last)
        closed.last_iteration.push_back({*e.place, e.op.value_or(Operator{}), e.start, e.at, !e.op});
    if (dropped > 0)
      job->world.log(job->log_path, fmt::format("{{\"event\":\"dropped\",\"text\":\"{} lines about single operators "
                                                "and tensors were left out: the log holds {} of them\"}}\n",
                                                dropped, format(Bytes{logged})));
    if (!job->trace_path.empty()) job->world.log(job->trace_path, to_chrome_trace(events));
    closed.event_hash = hash;
    closed.events = count;
    closed.violations = violations;
    closed.losses = losses;
    closed.begun_again = begun_again;
    closed.log = job->log_path;
    closed.trace = job->trace_path;
    tell(self, node, std::move(closed));
  }
};

RecorderActor::behavior_type recorder_behavior(RecorderActor::stateful_pointer<RecorderState> self, JobRef job,
                                               NodeActor node) {
  RecorderState& s = self->state;
  s.self = self;
  s.job = std::move(job);
  s.node = std::move(node);
  return behavior_of(RecorderActor{}, s);
}

}  // namespace

RecorderActor spawn_recorder(JobRef job, NodeActor node) {
  caf::actor_system& system = job->world.system();
  return system.spawn(recorder_behavior, std::move(job), std::move(node));
}

}  // namespace stagecraft
