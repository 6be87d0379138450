// The decisions of one stage within one iteration, as a pure value: event in, effects out.
//
// A stage is the scheduler of one device. It knows which inputs are there, which operators ran, and what its caps
// allow; when its device is free it picks the next operator. No actor, no clock, no arithmetic. The stage actor and
// the simulator translate the same effects, so what is simulated is what runs. One owner; not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "planning/follow_rule.hpp"
#include "planning/problem.hpp"
#include "planning/ready_set.hpp"
#include "planning/schedule.hpp"

namespace stagecraft {

/// How the places of a cap are given away under reactive dispatch. `reserve` is the rule that never hangs: a forward
/// gets one only if the lowest micro-batch that still lacks places keeps enough free ones for each of its chunks on
/// this stage, and a backward gets the last one only if its W is the next of its chunk. `greedy` gives to whoever asks
/// and is there as a negative control: reordered arrivals deadlock it.
enum class CapsRule : std::uint8_t { reserve, greedy };

/// Everything a stage needs to know about its part of an iteration.
struct StagePlan {
  std::vector<ChunkId> chunks;  ///< hosted here, in model order
  MicroBatch first;
  std::uint32_t micro_batches = 0;
  Dispatch dispatch = Dispatch::reactive;
  std::vector<Operator> order;          ///< in_order and follow: the list
  std::vector<Pace> paces;              ///< follow: one per entry of `order`
  std::optional<std::uint32_t> warmup;  ///< reactive: forwards that may start before the first backward
  StageCaps caps;             ///< reactive and follow; a list that runs in order was validated when it was made
  bool starts_model = false;  ///< hosts chunk 0: its gradient goes nowhere
  bool ends_model = false;    ///< hosts the last chunk: the loss starts its own backward
  CapsRule rule = CapsRule::reserve;
  bool free_weight_order = false;  ///< negative control: W of one chunk in any order
};

/// Work of the end of an iteration that runs on the same device: reduce, tie, step, gather. The caller knows what the
/// number means; the machine just finds a free moment for it, in the order of the requests.
struct ServiceOperator {
  std::uint32_t id = 0;
  bool operator==(const ServiceOperator&) const = default;
};
using DeviceOperator = std::variant<Operator, ServiceOperator>;

namespace stage_event {
/// The input of a forward (tokens, or a tensor) or of a backward (a gradient) is here.
struct Arrived {
  ChunkId chunk;
  Direction direction;
  MicroBatch micro_batch;
};
struct Finished {
  DeviceOperator op;
};
struct Wanted {
  ServiceOperator op;
};
/// The operator has begun elsewhere that gives the input of a forward or a backward; it should be here at `expected`.
/// Follow only.
struct Announced {
  ChunkId chunk;
  Direction direction;
  MicroBatch micro_batch;
  Duration expected;
};
/// The instant is over: choose now.
struct Choose {};
}  // namespace stage_event
using StageEvent = std::variant<stage_event::Arrived, stage_event::Finished, stage_event::Wanted,
                                stage_event::Announced, stage_event::Choose>;

namespace stage_effect {
struct Start {
  DeviceOperator op;
};
/// The output of an operator is ready for the link. Never said for the ends of the model.
struct Emit {
  ChunkId chunk;
  Direction direction;
  MicroBatch micro_batch;
};
/// The input left its receive slot: give the credit back. Never said for the ends of the model.
struct Adopt {
  ChunkId chunk;
  Direction direction;
  MicroBatch micro_batch;
};
/// Micro-batch `micro_batch` of the chunk has added its weight gradient; `last`: none is left.
struct Accumulated {
  ChunkId chunk;
  MicroBatch micro_batch;
  bool last;
};
/// An operator has begun whose output will go over a link in `after`: tell the far side. Follow only.
struct Announce {
  ChunkId chunk;
  Direction direction;
  MicroBatch micro_batch;
  Duration after;
};
/// Wake me with Choose when the instant is quiet.
struct Arm {};
/// Wake me with Choose when the instant `at` is quiet, unless I have chosen before: an input that comes at that very
/// instant goes first. Follow only.
struct Wake {
  Duration at;
};
}  // namespace stage_effect
using StageEffect =
    std::variant<stage_effect::Start, stage_effect::Emit, stage_effect::Adopt, stage_effect::Accumulated,
                 stage_effect::Announce, stage_effect::Arm, stage_effect::Wake>;

std::string to_text(const StageEffect& effect);

/// Memory counts of a stage, in micro-batches x chunks.
struct StagePeaks {
  std::uint32_t activations = 0;      ///< largest forwards started - backwards done
  std::uint32_t pending_weights = 0;  ///< largest backwards done - weight gradients done
  std::uint32_t held = 0;             ///< largest forwards started - weight gradients done
};

class StageMachine {
 public:
  StageMachine() = default;
  explicit StageMachine(StagePlan plan);

  /// Appends to `effects`. `now`: since the iteration began; only follow looks at it.
  template <class Event>
  void step(const Event& event, Duration now, std::vector<StageEffect>& effects) {
    now_ = now;
    on(event, effects);
  }
  std::vector<StageEffect> step(const StageEvent& event, Duration now = {}) {
    std::vector<StageEffect> effects;
    effects.reserve(4);  // few events have more
    std::visit([&](const auto& e) { step(e, now, effects); }, event);
    return effects;
  }

  /// Every micro-batch has done its weight gradient on every chunk.
  bool finished() const { return weights_done_ == cells_.size(); }
  const StagePeaks& peaks() const { return peaks_; }
  const StagePlan& plan() const { return plan_; }
  /// The operator that is due next: of a list its head, else the first that is missing of the lowest micro-batch.
  std::optional<Operator> next() const;
  /// What keeps an operator that has not begun from starting.
  std::string missing(const Operator& op) const;
  /// The chunk whose output that operator lacks; none: it lacks something else, or nothing.
  std::optional<ChunkId> awaits() const;
  /// What the stage waits for, in one line, for reports of a hang: "idle; next 2F3 waits for its input from chunk 1".
  std::string explain() const;

 private:
  struct Cell {
    bool input = false, forward_started = false, forward_done = false;
    bool gradient = false, backward_started = false, backward_done = false;
    bool weight_started = false, weight_done = false;
  };
  enum Class : std::size_t { backwards, forwards, weights };

  void on(const stage_event::Arrived& event, std::vector<StageEffect>& effects);
  void on(const stage_event::Finished& event, std::vector<StageEffect>& effects);
  void on(const stage_event::Wanted& event, std::vector<StageEffect>& effects);
  void on(const stage_event::Announced& event, std::vector<StageEffect>& effects);
  void on(const stage_event::Choose& event, std::vector<StageEffect>& effects);
  void finish(const Operator& op, std::vector<StageEffect>& effects);
  void finish_backward(const Operator& op, std::vector<StageEffect>& effects);
  void finish_weight(const Operator& op, std::vector<StageEffect>& effects);
  void begin(const Operator& op, std::vector<StageEffect>& effects);
  void emit(ChunkId chunk, Direction direction, MicroBatch micro_batch, std::vector<StageEffect>& effects);
  void announce(const Operator& op, Duration after, std::vector<StageEffect>& effects) const;
  void arm(std::vector<StageEffect>& effects);

  std::optional<Operator> choose(std::vector<StageEffect>& effects);
  std::optional<Operator> choose_reactive() const;
  std::optional<Operator> choose_following(std::vector<StageEffect>& effects);
  bool ready(const Operator& op) const;
  bool weight_due(const Operator& op) const;
  bool admits(std::optional<std::uint32_t> cap, std::uint32_t used, const Operator& op) const;
  bool fits(const Operator& op) const;
  Operator candidate(Class kind, std::size_t entry) const;
  void offer(Class kind, ChunkId chunk, MicroBatch micro_batch);
  void withdraw(const Operator& op);
  void offer_weight(ChunkId chunk, MicroBatch micro_batch);
  std::size_t entry(Class kind, ChunkId chunk, MicroBatch micro_batch) const;
  std::optional<Operator> first_missing(MicroBatch micro_batch) const;
  std::optional<Duration>& expected(ChunkId chunk, Direction direction, MicroBatch micro_batch);
  void expect(ChunkId chunk, Direction direction, MicroBatch micro_batch, Duration at);

  bool has_list() const { return plan_.dispatch != Dispatch::reactive; }
  bool hosts(ChunkId chunk) const {
    return std::find(plan_.chunks.begin(), plan_.chunks.end(), chunk) != plan_.chunks.end();
  }
  bool ends_here(ChunkId chunk) const { return plan_.ends_model && chunk == plan_.chunks.back(); }
  bool starts_here(ChunkId chunk) const { return plan_.starts_model && chunk == plan_.chunks.front(); }
  std::size_t local(ChunkId chunk) const;
  const Cell& at(ChunkId chunk, MicroBatch micro_batch) const;
  Cell& at(ChunkId chunk, MicroBatch micro_batch);

  StagePlan plan_;
  std::vector<Cell> cells_;                 // [local chunk][micro-batch - first]
  std::array<ReadySet, 3> candidates_;      // reactive: by class (B, F, W) what is ready and not started
  std::uint32_t lowest_ = 0;                // the lowest micro-batch that still lacks forwards
  std::vector<std::uint32_t> lacking_;      // forwards that a micro-batch still needs here
  std::vector<std::uint32_t> next_weight_;  // per local chunk: the micro-batch whose W is due
  FollowRule follow_;
  std::vector<std::optional<Duration>> expected_;  // follow: of each cell the input, then the gradient
  std::deque<ServiceOperator> services_;
  Duration now_{};
  std::size_t cursor_ = 0;  // into plan_.order
  std::uint32_t forwards_started_ = 0, backwards_started_ = 0, backwards_done_ = 0, weights_done_ = 0;
  StagePeaks peaks_;
  bool busy_ = false, armed_ = false;
};

}  // namespace stagecraft
