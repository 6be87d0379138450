#include "planning/timeline.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "planning/timeline_rows.hpp"

namespace stagecraft {
namespace {

// What a cell tells of its operator: everything, letter and last digit, or the letter.
enum class Detail { full, digit, letter };

struct Chart : TimelineRows {
  std::size_t columns = 0;
  Detail detail = Detail::full;

  // The nearest column boundary, so that neighbours in time share one.
  std::size_t column(Instant t) const {
    const double share = static_cast<double>((t - begin).count()) / static_cast<double>(length());
    return static_cast<std::size_t>(std::lround(share * static_cast<double>(columns)));
  }
  std::size_t width_of(const TimedOperator& timed) const { return column(timed.end) - column(timed.start); }
};

std::string full_label(const Chart& chart, const Operator& op) {
  return chart.several_chunks ? to_text(op) : letter(op.kind) + std::to_string(op.micro_batch.value);
}

std::string label(const Chart& chart, const TimedOperator& timed) {
  if (timed.overhead) return "+";
  if (chart.detail == Detail::full) return full_label(chart, timed.op);
  char kind = letter(timed.op.kind);
  if (timed.op.chunk != chart.first_chunk.at(timed.place)) kind = static_cast<char>(kind - 'A' + 'a');
  if (chart.detail == Detail::letter) return {kind};
  return {kind, static_cast<char>('0' + timed.op.micro_batch.value % 10)};
}

// The richest detail that fits at least nine in ten of the cells, so that one short operator spoils nothing.
Detail choose_detail(const Chart& chart) {
  std::size_t cells = 0, fit_full = 0, fit_digit = 0;
  for (const auto& [place, row] : chart.rows) {
    for (const TimedOperator& timed : row) {
      if (timed.overhead) continue;
      ++cells;
      fit_full += full_label(chart, timed.op).size() <= chart.width_of(timed);
      fit_digit += 2 <= chart.width_of(timed);
    }
  }
  if (fit_full * 10 >= cells * 9) return Detail::full;
  return fit_digit * 10 >= cells * 9 ? Detail::digit : Detail::letter;
}

// Paints cells: the label, then '-' to the end; the letter alone where the label does not fit.
std::string paint(const Chart& chart, const std::vector<TimedOperator>& row) {
  std::string cells(chart.columns, ' ');
  for (const TimedOperator& timed : row) {
    const std::size_t first = chart.column(timed.start), width = chart.width_of(timed);
    std::string text = label(chart, timed);
    if (text.size() > std::max<std::size_t>(width, 1)) {
      text.assign(1, chart.detail == Detail::full ? letter(timed.op.kind) : text[0]);
    }
    if (width == 0) {  // shorter than half a column: shown where nothing else is
      if (first < chart.columns && cells[first] == ' ') cells[first] = text[0];
      continue;
    }
    text.resize(width, timed.overhead ? '+' : '-');
    cells.replace(first, width, text);
  }
  return cells;
}

// Ticks at 1, 2 or 5 times a power of ten, at least ten columns apart, named in ms.
std::string scale_line(const Chart& chart, std::size_t margin) {
  const std::int64_t step = tick_step(10.0 * static_cast<double>(chart.length()) / static_cast<double>(chart.columns));
  std::string line = fmt::format("{:>{}} ", "ms", margin);
  line.resize(margin + 2 + chart.columns, ' ');
  for (std::int64_t t = 0; t <= chart.length(); t += step) {
    const std::string text = fmt::format("|{}", static_cast<double>(t) / 1e6);
    const std::size_t at = margin + 2 + chart.column(chart.begin + Duration{t});
    if (at + text.size() > line.size()) break;
    line.replace(at, text.size(), text);
  }
  return line.erase(line.find_last_not_of(' ') + 1) + '\n';
}

std::string legend(const Chart& chart) {
  std::set<OperatorKind> kinds;
  bool overhead = false;
  for (const auto& [place, row] : chart.rows) {
    for (const TimedOperator& timed : row) {
      overhead |= timed.overhead;
      if (!timed.overhead) kinds.insert(timed.op.kind);
    }
  }
  std::string text;
  for (OperatorKind kind : kinds) text += fmt::format("{} {}, ", letter(kind), name_of(kind));
  if (overhead) text += "+ reduce, norm and step, ";
  text += "blank idle";
  if (kinds.empty()) return text + "\n";
  const bool full = chart.detail == Detail::full;
  if (chart.several_chunks) text += full ? "; number before: chunk" : "; lower case: a later chunk of the stage";
  if (full) text += chart.several_chunks ? ", after: micro-batch" : "; number: micro-batch";
  if (chart.detail == Detail::digit) text += "; digit: last of the micro-batch";
  return text + "\n";
}

}  // namespace

std::string draw_timeline(std::vector<TimedOperator> operators, std::size_t width) {
  if (operators.empty()) return "no operator ran\n";
  Chart chart{rows_of(std::move(operators))};
  std::size_t margin = 0;
  for (const auto& [place, row] : chart.rows) margin = std::max(margin, row_name(chart, place).size());
  const std::size_t around = margin + std::string_view(" || idle 100.0 %").size();
  chart.columns = width > around + 20 ? width - around : 20;
  chart.detail = choose_detail(chart);

  std::string text;
  std::int64_t idle_sum = 0;
  for (const auto& [place, row] : chart.rows) {
    const std::int64_t idle = idle_time(chart, row);
    idle_sum += idle;
    text += fmt::format("{:<{}} |{}| idle {}\n", row_name(chart, place), margin, paint(chart, row),
                        percent(idle, chart.length()));
  }
  text += scale_line(chart, margin);
  text += fmt::format("{} in all, idle {} over all stages\n", format(chart.end - chart.begin),
                      percent(idle_sum, chart.length() * static_cast<std::int64_t>(chart.rows.size())));
  return text + legend(chart);
}

}  // namespace stagecraft
