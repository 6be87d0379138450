#include "planning/search_space.hpp"

#include <algorithm>
#include <bit>

#include "planning/bug.hpp"
#include "planning/random.hpp"

namespace stagecraft {

namespace {

constexpr std::size_t most_table_entries = std::size_t{1} << 21;  // 16 MiB

}  // namespace

SearchSpace::SearchSpace(const PipelineProblem& problem) : first_(problem.shape.first) {
  STAGECRAFT_ASSERT(problem.shape.chunks == 1, "the search needs one chunk per stage, not {}", problem.shape.chunks);
  STAGECRAFT_ASSERT(problem.shape.micro_batches > 0, "the search needs at least one micro-batch");
  const PipelineGraph graph = graph_of(problem);
  stages_ = graph.stages;
  n_ = graph.micro_batches;
  tails_ = tails_of(graph);
  stage_.resize(stages_);
  for (std::uint32_t s = 0; s < stages_; ++s) {
    Stage& stage = stage_[s];
    stage.time = graph.times[s];
    stage.caps = graph.caps[s];
    if (s > 0) stage.from_above = graph.forward[s - 1];
    if (s + 1 < stages_) stage.from_below = graph.backward[s];
    queues_ = queues_ || stage.from_above.service > 0 || stage.from_below.service > 0;
    stage.f_tail = tails_[phase_f].data() + graph.index(s, 0);
    stage.b_tail = tails_[phase_b].data() + graph.index(s, 0);
    stage.last_b_tail = stage.b_tail[n_ - 1];
  }
  lay_out();
  fill_tables();
  next_f_.resize(stages_);
  next_b_.resize(stages_);
  ready_.resize(stages_);
}

// Arrivals that are not used up yet live in rings. Activations limit how many there can be: those of the stage before
// for F, its own for B.
void SearchSpace::lay_out() {
  std::size_t next = stages_;
  const auto ring = [&](const PipelineGraph::Caps& caps, std::size_t& slots, std::uint32_t& mask) {
    const std::uint32_t size = std::bit_ceil(std::max(1U, std::min(caps.activations, caps.held)));
    slots = next;
    mask = size - 1;
    next += size;
  };
  for (std::uint32_t s = 0; s < stages_; ++s) {
    if (s > 0) ring(stage_[s - 1].caps, stage_[s].f_slots, stage_[s].f_mask);
    if (s + 1 < stages_) ring(stage_[s].caps, stage_[s].b_slots, stage_[s].b_mask);
  }
  times_size_ = next;
}

void SearchSpace::fill_tables() {
  std::size_t entries = 0, entries_fb = 0;
  for (Stage& stage : stage_) {
    stage.wide_w = std::min(stage.caps.pending, stage.caps.held) + 1;
    stage.wide_f = std::min(stage.caps.activations, stage.caps.held) + 1;
    stage.rest = entries;
    stage.rest_fb = entries_fb;
    entries += (std::size_t{n_} + 1) * stage.wide_w * stage.wide_f;
    entries_fb += (std::size_t{n_} + 1) * stage.wide_f;
  }
  tables_ = entries <= most_table_entries;
  if (!tables_) return;
  rest_.resize(entries);
  rest_fb_.resize(entries_fb);
  for (const Stage& stage : stage_) {
    fill_rest(stage);
    fill_rest_fb(stage);
  }
}

// How long a device that starts now takes for all that is left, and what follows it: the next operators in the order of
// their tails, largest first. rest(left) = time(first) + max(tail(first), rest(left without first)).
void SearchSpace::fill_rest(const Stage& stage) {
  const std::int64_t* w_tail = tails_[phase_w].data() + (stage.b_tail - tails_[phase_b].data());
  const std::size_t f_step = 1, b_step = stage.wide_f, w_step = std::size_t{stage.wide_w} * stage.wide_f;
  for (std::uint32_t w = n_ + 1; w-- > 0;) {
    for (std::uint32_t b = std::min(n_, w + stage.wide_w - 1) + 1; b-- > w;) {
      for (std::uint32_t f = std::min({n_, b + stage.wide_f - 1, w + stage.caps.held}) + 1; f-- > b;) {
        const std::size_t i = stage.rest + w * w_step + (b - w) * b_step + (f - b) * f_step;
        std::int64_t tail = -1;
        rest_[i] = 0;
        const auto try_first = [&](std::int64_t its_tail, std::int64_t time, std::size_t then) {
          if (its_tail <= tail) return;
          tail = its_tail;
          rest_[i] = time + std::max(its_tail, rest_[then]);
        };
        if (f < n_ && f - b + 1 < stage.wide_f && f - w < stage.caps.held)
          try_first(stage.f_tail[f], stage.time[phase_f], i + f_step);
        if (b < f && b - w + 1 < stage.wide_w) try_first(stage.b_tail[b], stage.time[phase_b], i + b_step - f_step);
        if (w < b) try_first(w_tail[w], stage.time[phase_w], i + w_step - b_step);
      }
    }
  }
}

// The same without W.
void SearchSpace::fill_rest_fb(const Stage& stage) {
  for (std::uint32_t b = n_ + 1; b-- > 0;) {
    for (std::uint32_t f = std::min(n_, b + stage.wide_f - 1) + 1; f-- > b;) {
      const std::size_t i = stage.rest_fb + std::size_t{b} * stage.wide_f + (f - b);
      const bool f_open = f < n_ && f - b + 1 < stage.wide_f, b_open = b < f;
      if (!f_open && !b_open) {
        rest_fb_[i] = 0;
      } else if (f_open && (!b_open || stage.f_tail[f] >= stage.b_tail[b])) {
        rest_fb_[i] = stage.time[phase_f] + std::max(stage.f_tail[f], rest_fb_[i + 1]);
      } else {
        rest_fb_[i] = stage.time[phase_b] + std::max(stage.b_tail[b], rest_fb_[i + stage.wide_f - 1]);
      }
    }
  }
}

std::int64_t SearchSpace::rest(const Stage& stage, const std::uint32_t* count) const {
  const std::uint32_t f = count[phase_f], b = count[phase_b], w = count[phase_w];
  if (tables_) return rest_[stage.rest + (std::size_t{w} * stage.wide_w + (b - w)) * stage.wide_f + (f - b)];
  const std::int64_t all = rest_fb(stage, count) - (b < n_ ? stage.last_b_tail : 0) + (n_ - w) * stage.time[phase_w];
  return std::max(all, rest_fb(stage, count));
}

std::int64_t SearchSpace::rest_fb(const Stage& stage, const std::uint32_t* count) const {
  const std::uint32_t f = count[phase_f], b = count[phase_b];
  if (tables_) return rest_fb_[stage.rest_fb + std::size_t{b} * stage.wide_f + (f - b)];
  if (b == n_) return 0;
  return (n_ - f) * stage.time[phase_f] + (n_ - b) * stage.time[phase_b] + stage.last_b_tail;
}

void SearchSpace::start(PartialSchedule state) const {
  std::fill_n(state.times, times_size(), 0);
  std::fill_n(state.counts, counts_size(), 0);
}

// The next operator of the kind has its input, or knows when it comes, and fits the caps.
bool SearchSpace::open(PartialSchedule state, std::uint32_t s, std::uint8_t phase) const {
  const std::uint32_t* count = state.counts + phases * s;
  const std::uint32_t f = count[phase_f], b = count[phase_b], w = count[phase_w];
  const PipelineGraph::Caps& caps = stage_[s].caps;
  if (phase == phase_w) return w < b;
  if (phase == phase_b) return b < f && b - w < caps.pending && (s + 1 == stages_ || b < count[phases + phase_b]);
  return f < n_ && f - b < caps.activations && f - w < caps.held && (s == 0 || f < *(count - phases + phase_f));
}

std::int64_t SearchSpace::earliest(PartialSchedule state, std::uint32_t s, std::uint8_t phase) const {
  const Stage& stage = stage_[s];
  const std::uint32_t k = state.counts[phases * s + phase];
  const std::int64_t free = state.times[s];
  if (phase == phase_f && s > 0) return std::max(free, state.times[stage.f_slots + (k & stage.f_mask)]);
  if (phase == phase_b && s + 1 < stages_) return std::max(free, state.times[stage.b_slots + (k & stage.b_mask)]);
  return free;
}

Branches SearchSpace::branch(PartialSchedule state) const {
  std::int64_t end = never;
  SearchStep best;
  for (std::uint32_t s = 0; s < stages_; ++s) {
    if (state.times[s] >= end) continue;
    for (std::uint8_t phase = 0; phase < phases; ++phase) {
      if (!open(state, s, phase)) continue;
      const std::int64_t its_end = earliest(state, s, phase) + stage_[s].time[phase];
      if (its_end < end) end = its_end, best = {s, phase};
    }
  }
  Branches branches{best.stage, 0, {}};
  if (end == never) return branches;
  for (std::uint8_t phase = 0; phase < phases; ++phase) {
    if (!open(state, best.stage, phase)) continue;
    if (phase == best.phase || earliest(state, best.stage, phase) < end) branches.phase[branches.count++] = phase;
  }
  return branches;
}

Undo SearchSpace::apply(PartialSchedule state, SearchStep move) const {
  const Stage& stage = stage_[move.stage];
  std::uint32_t& count = state.counts[phases * move.stage + move.phase];
  const std::uint32_t k = count;
  const std::int64_t end = earliest(state, move.stage, move.phase) + stage.time[move.phase];
  Undo undo{move, state.times[move.stage], 0};
  state.times[move.stage] = end;
  ++count;
  const auto send = [&](const PipelineGraph::Message& message, std::size_t slots, std::uint32_t mask) {
    std::int64_t& slot = state.times[slots + (k & mask)];
    const std::int64_t before = k > 0 ? state.times[slots + ((k - 1) & mask)] + message.service : 0;
    undo.arrival = slot;
    slot = std::max(end + message.crossing(), before);
  };
  if (move.phase == phase_f && move.stage + 1 < stages_) {
    const Stage& to = stage_[move.stage + 1];
    send(to.from_above, to.f_slots, to.f_mask);
  } else if (move.phase == phase_b && move.stage > 0) {
    const Stage& to = stage_[move.stage - 1];
    send(to.from_below, to.b_slots, to.b_mask);
  }
  return undo;
}

void SearchSpace::undo(PartialSchedule state, const Undo& undo) const {
  const SearchStep move = undo.move;
  const std::uint32_t k = --state.counts[phases * move.stage + move.phase];
  state.times[move.stage] = undo.free;
  if (move.phase == phase_f && move.stage + 1 < stages_) {
    const Stage& to = stage_[move.stage + 1];
    state.times[to.f_slots + (k & to.f_mask)] = undo.arrival;
  } else if (move.phase == phase_b && move.stage > 0) {
    const Stage& to = stage_[move.stage - 1];
    state.times[to.b_slots + (k & to.b_mask)] = undo.arrival;
  }
}

// When the next F and the next B of every stage can start at the earliest: F down the pipeline, then B up.
void SearchSpace::estimate_starts(PartialSchedule state) {
  for (std::uint32_t s = 0; s < stages_; ++s) {
    const std::uint32_t* count = state.counts + phases * s;
    const std::uint32_t f = count[phase_f];
    std::int64_t start = state.times[s];
    if (f == n_) {
      start = never;
    } else if (s > 0) {
      const Stage& stage = stage_[s];
      const bool sent = f < *(count - phases + phase_f);
      start = std::max(start, sent ? state.times[stage.f_slots + (f & stage.f_mask)]
                                   : next_f_[s - 1] + stage_[s - 1].time[phase_f] + stage.from_above.crossing());
    }
    if (f < n_ && f - count[phase_w] == stage_[s].caps.held && count[phase_w] < count[phase_b])
      start = std::max(start, state.times[s] + stage_[s].time[phase_w]);
    next_f_[s] = start;
  }
  for (std::uint32_t s = stages_; s-- > 0;) {
    const Stage& stage = stage_[s];
    const std::uint32_t* count = state.counts + phases * s;
    const std::uint32_t b = count[phase_b];
    std::int64_t start = state.times[s];
    if (b == n_) {
      next_b_[s] = never;
      continue;
    }
    if (b == count[phase_f]) start = next_f_[s] + stage.time[phase_f];
    if (b - count[phase_w] == stage.caps.pending) start = std::max(start, state.times[s] + stage.time[phase_w]);
    if (s + 1 < stages_) {
      const bool sent = b < count[phases + phase_b];
      start = std::max(start, sent ? state.times[stage.b_slots + (b & stage.b_mask)]
                                   : next_b_[s + 1] + stage_[s + 1].time[phase_b] + stage.from_below.crossing());
    }
    next_b_[s] = start;
  }
}

// A forward that waits for a place which only a backward gives back can't start before that; nor can those behind it.
void SearchSpace::raise_blocked(PartialSchedule state) {
  bool raised = false;
  for (std::uint32_t s = 0; s < stages_; ++s) {
    const Stage& stage = stage_[s];
    const std::uint32_t* count = state.counts + phases * s;
    const std::uint32_t f = count[phase_f], b = count[phase_b], w = count[phase_w];
    if (f == n_) continue;
    std::int64_t start = next_f_[s];
    if (f - b == stage.caps.activations) start = std::max(start, next_b_[s] + stage.time[phase_b]);
    if (w == b && f - w == stage.caps.held)
      start = std::max(start, next_b_[s] + stage.time[phase_b] + stage.time[phase_w]);
    if (raised && f == *(count - phases + phase_f))
      start = std::max(start, next_f_[s - 1] + stage_[s - 1].time[phase_f] + stage.from_above.crossing());
    raised = raised || start > next_f_[s];
    next_f_[s] = start;
  }
}

std::int64_t SearchSpace::stage_bound(PartialSchedule state, std::uint32_t s) {
  const Stage& stage = stage_[s];
  const std::uint32_t* count = state.counts + phases * s;
  const std::int64_t free = state.times[s];
  if (count[phase_w] == n_) return ready_[s] = free;
  const std::int64_t next = std::min(next_f_[s], next_b_[s]);
  const bool weight = count[phase_w] < count[phase_b];
  ready_[s] = weight ? free : next;
  std::int64_t bound = ready_[s] + rest(stage, count);
  if (count[phase_b] == n_) return bound;
  if (weight) bound = std::max(bound, next + rest_fb(stage, count));
  if (count[phase_f] < n_) bound = std::max(bound, next_f_[s] + stage.time[phase_f] + stage.f_tail[count[phase_f]]);
  return std::max(bound, next_b_[s] + stage.time[phase_b] + stage.b_tail[count[phase_b]]);
}

Score SearchSpace::score(PartialSchedule state) {
  estimate_starts(state);
  raise_blocked(state);
  Score score;
  for (std::uint32_t s = 0; s < stages_; ++s) {
    const std::int64_t bound = stage_bound(state, s);
    score.bound = std::max(score.bound, bound);
    score.sum += static_cast<double>(bound);
  }
  return score;
}

// A device can't start anything before `ready_`, so earlier arrivals make no difference.
std::size_t SearchSpace::values(PartialSchedule state, std::int64_t* out) const {
  std::int64_t* next = out;
  for (std::uint32_t s = 0; s < stages_; ++s) {
    const Stage& stage = stage_[s];
    const std::uint32_t* count = state.counts + phases * s;
    const std::int64_t ready = *next++ = ready_[s];
    const auto arrivals = [&](std::uint32_t used, std::uint32_t sent, std::size_t slots, std::uint32_t mask) {
      for (std::uint32_t k = used; k < sent; ++k) *next++ = std::max(ready, state.times[slots + (k & mask)]);
      if (queues_ && sent > 0) *next++ = state.times[slots + ((sent - 1) & mask)];
    };
    if (s > 0) arrivals(count[phase_f], *(count - phases + phase_f), stage.f_slots, stage.f_mask);
    if (s + 1 < stages_) arrivals(count[phase_b], count[phases + phase_b], stage.b_slots, stage.b_mask);
  }
  return static_cast<std::size_t>(next - out);
}

bool SearchSpace::no_later(PartialSchedule first, PartialSchedule second) const {
  for (std::uint32_t s = 0; s < stages_; ++s) {
    const Stage& stage = stage_[s];
    const std::uint32_t* count = first.counts + phases * s;
    const std::int64_t free = second.times[s];
    if (first.times[s] > free) return false;
    const auto late = [&](std::uint32_t used, std::uint32_t sent, std::size_t slots, std::uint32_t mask) {
      for (std::uint32_t k = used; k < sent; ++k) {
        const std::size_t slot = slots + (k & mask);
        if (first.times[slot] > std::max(free, second.times[slot])) return true;
      }
      const std::size_t last = slots + ((sent - 1) & mask);
      return queues_ && sent > 0 && first.times[last] > second.times[last];
    };
    if (s > 0 && late(count[phase_f], *(count - phases + phase_f), stage.f_slots, stage.f_mask)) return false;
    if (s + 1 < stages_ && late(count[phase_b], count[phases + phase_b], stage.b_slots, stage.b_mask)) return false;
  }
  return true;
}

std::uint64_t SearchSpace::hash_of(SearchStep move) {
  return mix_bits(phases * std::uint64_t{move.stage} + move.phase);
}

Schedule SearchSpace::schedule_of(const std::vector<SearchStep>& moves) const {
  constexpr std::array<OperatorKind, phases> kinds{OperatorKind::forward, OperatorKind::backward_input,
                                                   OperatorKind::backward_weight};
  Schedule schedule;
  schedule.operators.resize(stages_);
  std::vector<std::uint32_t> counts(counts_size());
  for (const SearchStep move : moves)
    schedule.operators[move.stage].push_back({kinds[move.phase], ChunkId{move.stage},
                                              MicroBatch{first_.value + counts[phases * move.stage + move.phase]++}});
  return schedule;
}

Duration SearchSpace::makespan(PartialSchedule state) const {
  return Duration{*std::max_element(state.times, state.times + stages_)};
}

}  // namespace stagecraft
