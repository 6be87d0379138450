#include "tools/trace_summary.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace stagecraft::tools {

namespace {

struct Piece {
  Instant start{}, end{};
};
using Pieces = std::vector<Piece>;

// A tensor on its way.
struct Arrow {
  Place to;
  Piece way;
};

double ms_of(Duration d) { return static_cast<double>(d.count()) / 1e6; }

// Without overlaps, in order.
Pieces united(Pieces pieces) {
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.start < b.start; });
  Pieces all;
  for (const Piece& piece : pieces) {
    if (all.empty() || piece.start > all.back().end) {
      all.push_back(piece);
    } else {
      all.back().end = std::max(all.back().end, piece.end);
    }
  }
  return all;
}

double length_ms(const Pieces& united) {
  return std::accumulate(united.begin(), united.end(), 0.0,
                         [](double sum, const Piece& piece) { return sum + ms_of(piece.end - piece.start); });
}

// What is in both; each without overlaps.
double common_ms(const Pieces& a, const Pieces& b) {
  double sum = 0;
  for (std::size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    const Instant start = std::max(a[i].start, b[k].start), end = std::min(a[i].end, b[k].end);
    if (start < end) sum += ms_of(end - start);
    (a[i].end < b[k].end ? i : k) += 1;
  }
  return sum;
}

// Ends of one id in the order of their times; where both are at once, it was sent first.
using EndsById = std::map<std::uint64_t, std::vector<TraceContent::ArrowEnd>>;
EndsById ends_by_id(const TraceContent& trace) {
  EndsById all;
  for (const auto& end : trace.ends) all[end.id].push_back(end);
  for (auto& [id, ends] : all)
    std::stable_sort(ends.begin(), ends.end(), [](const auto& a, const auto& b) {
      return std::pair(a.at, a.arrives) < std::pair(b.at, b.arrives);
    });
  return all;
}

// From the newest time at which it was sent until it arrived: a tensor that is sent again has the same id.
std::vector<Arrow> arrows_of(const TraceContent& trace) {
  std::vector<Arrow> arrows;
  for (const auto& [id, ends] : ends_by_id(trace))
    for (std::size_t i = 1; i < ends.size(); ++i)
      if (ends[i].arrives && !ends[i - 1].arrives) arrows.push_back({ends[i].place, {ends[i - 1].at, ends[i].at}});
  return arrows;
}

void add(StageShare& share, const TraceContent::Ran& ran) {
  const double time = ms_of(ran.end - ran.start);
  if (!ran.kind) {
    share.services[ran.service] += time;
    return;
  }
  ++share.operators;
  switch (*ran.kind) {
    case OperatorKind::forward:
      share.forward += time;
      return;
    case OperatorKind::backward_input:
      share.backward += time;
      return;
    case OperatorKind::backward_weight:
      share.weight += time;
      return;
    case OperatorKind::backward:
      share.backward_and_weight += time;
      return;
  }
}

// What one stage did and was sent.
struct StageColumn {
  StageShare share;
  Pieces busy, ways;
};

bool by_replica(const Place& a, const Place& b) {
  return std::pair(a.replica, a.stage) < std::pair(b.replica, b.stage);
}
using StageColumns = std::map<Place, StageColumn, decltype(&by_replica)>;

TraceSummary summary_of(StageColumns& columns, const Piece& span) {
  TraceSummary summary;
  summary.span = ms_of(span.end - span.start);
  for (auto& [place, column] : columns) {
    StageShare& share = column.share;
    share.place = place;
    const Pieces busy = united(std::move(column.busy));
    share.idle = std::max(0.0, summary.span - length_ms(busy));
    share.tensors = column.ways.size();
    for (Piece& way : column.ways)
      way = {std::clamp(way.start, span.start, span.end), std::clamp(way.end, span.start, span.end)};
    const Pieces ways = united(std::move(column.ways));
    share.under_way = length_ms(ways);
    share.waited = std::max(0.0, share.under_way - common_ms(ways, busy));
    summary.stages.push_back(std::move(share));
  }
  return summary;
}

// What belongs together, and when it was.
struct Part {
  StageColumns columns{&by_replica};
  Piece span{Instant::max(), Instant::min()};
  bool has_operators = false;

  void add_ran(const TraceContent::Ran& ran) {
    StageColumn& column = columns[ran.place];
    add(column.share, ran);
    column.busy.push_back({ran.start, ran.end});
    has_operators = has_operators || ran.kind;
    span = {std::min(span.start, ran.start), std::max(span.end, ran.end)};
  }
};

}  // namespace

double StageShare::other() const {
  return std::accumulate(services.begin(), services.end(), 0.0,
                         [](double sum, const auto& x) { return sum + x.second; });
}

double TraceSummary::bubble() const {
  double idle = 0;
  for (const StageShare& stage : stages) idle += stage.idle;
  return span > 0 && !stages.empty() ? idle / (span * static_cast<double>(stages.size())) : 0;
}

TraceSummary summarise(const TraceContent& trace) {
  Part all;
  for (const auto& ran : trace.ran) all.add_ran(ran);
  for (const Arrow& arrow : arrows_of(trace)) all.columns[arrow.to].ways.push_back(arrow.way);
  return summary_of(all.columns, all.span);
}

std::vector<std::pair<Iteration, TraceSummary>> summarise_iterations(const TraceContent& trace) {
  std::map<Iteration, Part> parts;
  for (const auto& ran : trace.ran)
    if (ran.iteration) parts[*ran.iteration].add_ran(ran);
  std::map<Instant, Part*> by_start;
  for (auto& [iteration, part] : parts) by_start[part.span.start] = &part;
  for (const Arrow& arrow : arrows_of(trace)) {
    const auto after = by_start.upper_bound(arrow.way.end);
    if (after == by_start.begin()) continue;
    Part& part = *std::prev(after)->second;
    if (arrow.way.end <= part.span.end) part.columns[arrow.to].ways.push_back(arrow.way);
  }
  std::vector<std::pair<Iteration, TraceSummary>> summaries;
  for (auto& [iteration, part] : parts)
    if (part.has_operators) summaries.emplace_back(iteration, summary_of(part.columns, part.span));
  return summaries;
}

std::uint64_t loose_ends(const TraceContent& trace) { return trace.ends.size() - 2 * arrows_of(trace).size(); }

}  // namespace stagecraft::tools
