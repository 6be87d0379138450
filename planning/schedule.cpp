#include "planning/schedule.hpp"

#include <algorithm>
#include <array>

namespace stagecraft {
namespace {

template <class Value>
struct Named {
  Value value;
  std::string_view name;
};

constexpr std::array<Named<ScheduleKind>, 12> kinds{{{ScheduleKind::gpipe, "gpipe"},
                                                     {ScheduleKind::one_f_one_b, "1f1b"},
                                                     {ScheduleKind::interleaved, "interleaved"},
                                                     {ScheduleKind::bfs, "bfs"},
                                                     {ScheduleKind::zb_h1, "zb-h1"},
                                                     {ScheduleKind::zb_h2, "zb-h2"},
                                                     {ScheduleKind::zb_auto, "zb-auto"},
                                                     {ScheduleKind::zb_v, "zb-v"},
                                                     {ScheduleKind::v_half, "v-half"},
                                                     {ScheduleKind::v_min, "v-min"},
                                                     {ScheduleKind::pipemorph, "pipemorph"},
                                                     {ScheduleKind::planned, "planned"}}};
constexpr std::array<Named<Dispatch>, 3> dispatches{
    {{Dispatch::in_order, "static"}, {Dispatch::reactive, "reactive"}, {Dispatch::follow, "follow"}}};

template <class Table, class Value>
std::string_view name_in(const Table& table, Value value) {
  return std::find_if(table.begin(), table.end(), [&](const auto& entry) { return entry.value == value; })->name;
}

template <class Value, std::size_t n>
std::optional<Value> find_in(const std::array<Named<Value>, n>& table, std::string_view text) {
  for (const auto& entry : table) {
    if (entry.name == text) return entry.value;
  }
  return std::nullopt;
}

constexpr std::string_view blanks = " \t\r";

std::optional<std::vector<Operator>> parse_line(std::string_view line) {
  std::vector<Operator> operators;
  while (true) {
    const std::size_t begin = line.find_first_not_of(blanks);
    if (begin == std::string_view::npos) return operators;
    line.remove_prefix(begin);
    const std::string_view word = line.substr(0, line.find_first_of(blanks));
    const auto op = parse_operator(word);
    if (!op) return std::nullopt;
    operators.push_back(*op);
    line.remove_prefix(word.size());
  }
}

}  // namespace

std::string_view name_of(ScheduleKind kind) { return name_in(kinds, kind); }
std::string_view name_of(Dispatch dispatch) { return name_in(dispatches, dispatch); }
std::optional<ScheduleKind> parse_schedule_kind(std::string_view text) { return find_in(kinds, text); }
std::optional<Dispatch> parse_dispatch(std::string_view text) { return find_in(dispatches, text); }

// Every line ends with a newline, so that a last stage without operators survives the way there and back.
std::string to_text(const Schedule& schedule) {
  std::string text;
  for (const auto& operators : schedule.operators) {
    for (std::size_t i = 0; i < operators.size(); ++i) {
      if (i) text += ' ';
      text += to_text(operators[i]);
    }
    text += '\n';
  }
  return text;
}

std::optional<Schedule> parse_schedule(std::string_view text) {
  Schedule schedule;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    auto operators = parse_line(text.substr(0, end));
    if (!operators) return std::nullopt;
    schedule.operators.push_back(std::move(*operators));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return schedule;
}

}  // namespace stagecraft
