#include "planning/pipeline_graph.hpp"

#include <algorithm>
#include <optional>

#include "planning/bug.hpp"

namespace stagecraft {

namespace {

constexpr double longest_horizon = 1e18;  // ns; leaves room below 2^63 for a few sums

std::uint32_t clipped(const std::optional<std::uint32_t>& cap, std::uint32_t micro_batches) {
  return cap ? std::min(*cap, micro_batches) : micro_batches;
}

// Saturating a - b.
std::uint32_t less(std::uint32_t a, std::uint32_t b) { return a > b ? a - b : 0; }

void raise(std::int64_t& value, std::int64_t least) { value = std::max(value, least); }

// How many operators of each kind of the same chunk must come before (or after) one operator.
struct Counts {
  std::uint32_t f = 0, b = 0, w = 0;
  std::int64_t work(const std::array<std::int64_t, phases>& t) const { return f * t[0] + b * t[1] + w * t[2]; }
};

// The caps B - W and F - W make the weight gradients due of those backwards and forwards.
Counts before(Phase phase, std::uint32_t k, const PipelineGraph::Caps& caps) {
  if (phase == phase_w) return {k + 1, k + 1, k};
  if (phase == phase_b) return {k + 1, k, less(k + 1, caps.pending)};
  const std::uint32_t held = less(k + 1, caps.held), b = std::max(less(k + 1, caps.activations), held);
  return {k, b, std::max(held, less(b, caps.pending))};
}

Counts after(Phase phase, std::uint32_t left, const PipelineGraph::Caps& caps) {  // left = micro-batches - k
  if (phase == phase_f) return {left - 1, left, left};
  if (phase == phase_b) return {std::max(less(left, caps.activations), less(left, caps.held)), left - 1, left};
  const std::uint32_t f = less(left, caps.held);
  return {f, std::max(less(left, caps.pending), f), left - 1};
}

// Fills in the heads, micro-batch by micro-batch: every arc comes from an earlier one, or from earlier in the same.
class Heads {
 public:
  explicit Heads(const PipelineGraph& graph) : g_(graph), f_ready_(graph.chunks), b_ready_(graph.chunks) {
    for (auto& lengths : heads_) lengths.resize(std::size_t{graph.chunks} * graph.micro_batches);
  }

  PathLengths run() {
    for (std::uint32_t k = 0; k < g_.micro_batches; ++k) {
      for (std::uint32_t c = 0; c < g_.chunks; ++c) forward(c, k);
      for (std::uint32_t c = g_.chunks; c-- > 0;) backward(c, k);
    }
    return std::move(heads_);
  }

 private:
  void forward(std::uint32_t c, std::uint32_t k) {
    const auto& t = g_.times[c];
    const auto& caps = g_.caps[c];
    const std::size_t i = g_.index(c, k);
    std::int64_t head = f_ready_[c];
    if (k > 0) raise(head, heads_[phase_f][i - 1] + t[phase_f]);
    if (k >= caps.activations) raise(head, heads_[phase_b][i - caps.activations] + t[phase_b]);
    if (k >= caps.held) raise(head, heads_[phase_w][i - caps.held] + t[phase_w]);
    heads_[phase_f][i] = lifted(head, phase_f, c, k);
    if (c + 1 < g_.chunks) send(g_.forward[c], heads_[phase_f][i] + t[phase_f], k, f_ready_[c + 1]);
  }

  void backward(std::uint32_t c, std::uint32_t k) {
    const auto& t = g_.times[c];
    const auto& caps = g_.caps[c];
    const std::size_t i = g_.index(c, k);
    std::int64_t head = std::max(b_ready_[c], heads_[phase_f][i] + t[phase_f]);
    if (k > 0) raise(head, heads_[phase_b][i - 1] + t[phase_b]);
    if (k >= caps.pending) raise(head, heads_[phase_w][i - caps.pending] + t[phase_w]);
    heads_[phase_b][i] = lifted(head, phase_b, c, k);
    if (c > 0) send(g_.backward[c - 1], heads_[phase_b][i] + t[phase_b], k, b_ready_[c - 1]);
    head = heads_[phase_b][i] + t[phase_b];
    if (k > 0) raise(head, heads_[phase_w][i - 1] + t[phase_w]);
    heads_[phase_w][i] = lifted(head, phase_w, c, k);
  }

  // `ready`: when the message before this one arrived.
  static void send(const PipelineGraph::Message& m, std::int64_t handed_over, std::uint32_t k, std::int64_t& ready) {
    ready = k == 0 ? handed_over + m.crossing() : std::max(handed_over + m.crossing(), ready + m.service);
  }

  // All that must run on this device before starts with F of the first micro-batch; the part without F with its B.
  std::int64_t lifted(std::int64_t head, Phase phase, std::uint32_t c, std::uint32_t k) const {
    const Counts counts = before(phase, k, g_.caps[c]);
    if (counts.f) raise(head, heads_[phase_f][g_.index(c, 0)] + counts.work(g_.times[c]));
    if (counts.b) raise(head, heads_[phase_b][g_.index(c, 0)] + Counts{0, counts.b, counts.w}.work(g_.times[c]));
    return head;
  }

  const PipelineGraph& g_;
  PathLengths heads_;
  std::vector<std::int64_t> f_ready_, b_ready_;  // per chunk: when its latest input arrived
};

// The mirror image: from the last micro-batch to the first.
class Tails {
 public:
  explicit Tails(const PipelineGraph& graph) : g_(graph), f_sent_(graph.chunks), b_sent_(graph.chunks) {
    for (auto& lengths : tails_) lengths.resize(std::size_t{graph.chunks} * graph.micro_batches);
  }

  PathLengths run() {
    for (std::uint32_t k = g_.micro_batches; k-- > 0;) {
      for (std::uint32_t c = 0; c < g_.chunks; ++c) backward(c, k);
      for (std::uint32_t c = g_.chunks; c-- > 0;) forward(c, k);
    }
    return std::move(tails_);
  }

 private:
  void backward(std::uint32_t c, std::uint32_t k) {
    const auto& t = g_.times[c];
    const auto& caps = g_.caps[c];
    const std::size_t i = g_.index(c, k);
    const std::uint32_t left = g_.micro_batches - k;
    std::int64_t tail = 0;
    if (left > 1) raise(tail, t[phase_w] + tails_[phase_w][i + 1]);
    if (left > caps.held) raise(tail, t[phase_f] + tails_[phase_f][i + caps.held]);
    if (left > caps.pending) raise(tail, t[phase_b] + tails_[phase_b][i + caps.pending]);
    tails_[phase_w][i] = lifted(tail, phase_w, c, k);

    tail = t[phase_w] + tails_[phase_w][i];
    if (left > 1) raise(tail, t[phase_b] + tails_[phase_b][i + 1]);
    if (left > caps.activations) raise(tail, t[phase_f] + tails_[phase_f][i + caps.activations]);
    if (c > 0) raise(tail, send(g_.backward[c - 1], phase_b, c - 1, k, b_sent_[c]));
    tails_[phase_b][i] = lifted(tail, phase_b, c, k);
  }

  void forward(std::uint32_t c, std::uint32_t k) {
    const auto& t = g_.times[c];
    const std::size_t i = g_.index(c, k);
    std::int64_t tail = t[phase_b] + tails_[phase_b][i];
    if (k + 1 < g_.micro_batches) raise(tail, t[phase_f] + tails_[phase_f][i + 1]);
    if (c + 1 < g_.chunks) raise(tail, send(g_.forward[c], phase_f, c + 1, k, f_sent_[c]));
    tails_[phase_f][i] = lifted(tail, phase_f, c, k);
  }

  // From the start of a message to the end of all. `sent`: that of the message after it.
  std::int64_t send(const PipelineGraph::Message& m, Phase phase, std::uint32_t consumer, std::uint32_t k,
                    std::int64_t& sent) const {
    const std::int64_t after_arrival = g_.times[consumer][phase] + tails_[phase][g_.index(consumer, k)];
    const bool last = k + 1 == g_.micro_batches;
    return sent = std::max(m.crossing() + after_arrival, last ? 0 : m.service + sent);
  }

  // All that must still run on this device ends with W of the last micro-batch; the part without W with its B.
  std::int64_t lifted(std::int64_t tail, Phase phase, std::uint32_t c, std::uint32_t k) const {
    const Counts counts = after(phase, g_.micro_batches - k, g_.caps[c]);
    raise(tail, counts.work(g_.times[c]));
    if (counts.b) {
      const std::int64_t end = tails_[phase_b][g_.index(c, g_.micro_batches - 1)];
      raise(tail, Counts{counts.f, counts.b, 0}.work(g_.times[c]) + end);
    }
    return tail;
  }

  const PipelineGraph& g_;
  PathLengths tails_;
  std::vector<std::int64_t> f_sent_, b_sent_;  // per chunk that sends
};

void check_horizon(const PipelineGraph& graph) {
  double horizon = 0;
  for (const auto& t : graph.times)
    for (const std::int64_t time : t) horizon += static_cast<double>(time) * graph.micro_batches;
  for (const auto* messages : {&graph.forward, &graph.backward})
    for (const auto& m : *messages) horizon += static_cast<double>(m.crossing()) * graph.micro_batches;
  STAGECRAFT_ASSERT(horizon < longest_horizon, "operators and messages add up to {:.3g} s, the most is {:.3g} s",
                    horizon / 1e9, longest_horizon / 1e9);
}

}  // namespace

bool PipelineGraph::unlimited() const {
  const Caps none{micro_batches, micro_batches, micro_batches};
  return std::all_of(caps.begin(), caps.end(), [&](const Caps& c) { return c == none; });
}

PipelineGraph graph_of(const PipelineProblem& problem, BackwardForm backward) {
  const PipelineShape& shape = problem.shape;
  const auto impossible = find_impossible_cap(problem, backward);
  STAGECRAFT_ASSERT(!impossible, "{}", to_text(*impossible));
  STAGECRAFT_ASSERT(problem.times.size() == shape.total_chunks(), "times of {} chunks for {}", problem.times.size(),
                    shape.total_chunks());
  const bool fused = backward == BackwardForm::fused;
  PipelineGraph graph{shape.stages, shape.total_chunks(), shape.micro_batches, {}, {}, {}, {}, {}};
  for (std::uint32_t c = 0; c < graph.chunks; ++c) {
    const OperatorTimes& t = problem.times[c];
    const Duration b = fused ? t.backward_input + t.backward_weight : t.backward_input;
    graph.times.push_back({t.forward.count(), b.count(), fused ? 0 : t.backward_weight.count()});
    graph.stage_of.push_back(shape.stage_of(ChunkId{c}).value);
    const StageCaps caps = problem.caps.empty() ? StageCaps{} : problem.caps[graph.stage_of.back()];
    const std::uint32_t n = graph.micro_batches;
    graph.caps.push_back(
        {clipped(caps.activations, n), fused ? n : clipped(caps.pending_weights, n), clipped(caps.held, n)});
  }
  const auto message = [&](Direction direction, std::uint32_t boundary) {
    const auto& links = direction == Direction::forward ? problem.forward_links : problem.backward_links;
    if (links.empty() || shape.is_inside(boundary)) return PipelineGraph::Message{};
    const std::int64_t crossing = problem.crossing(direction, boundary).count();
    // Several servers pass one another's messages: no message has to wait for the one before it.
    const std::int64_t latency = links[boundary].lanes > 1 ? crossing : links[boundary].latency.count();
    return PipelineGraph::Message{crossing - latency, latency};
  };
  for (std::uint32_t c = 0; c + 1 < graph.chunks; ++c) {
    graph.forward.push_back(message(Direction::forward, c));
    graph.backward.push_back(message(Direction::backward, c));
  }
  check_horizon(graph);
  return graph;
}

PipelineGraph without_caps(PipelineGraph graph) {
  graph.caps.assign(graph.chunks, {graph.micro_batches, graph.micro_batches, graph.micro_batches});
  return graph;
}

PathLengths heads_of(const PipelineGraph& graph) { return Heads(graph).run(); }
PathLengths tails_of(const PipelineGraph& graph) { return Tails(graph).run(); }

}  // namespace stagecraft
