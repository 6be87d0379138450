#include "planning/reproduce/pipemorph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include "planning/bug.hpp"
#include "planning/reproduce/changing.hpp"
#include "planning/reproduce/experiment.hpp"
#include "planning/reproduce/fixed_costs.hpp"
#include "planning/reproduce/published.hpp"

namespace stagecraft::reproduce {

namespace {

using namespace std::chrono_literals;
using Cells = std::vector<Cell>;
using Systems = std::vector<System>;

constexpr Memory memories[] = {Memory::equal, Memory::free};
constexpr Injection injections[] = {Injection::occupancy, Injection::latency};

const Systems& told_or_not() {  // all that can run an iteration without knowing the future
  static const Systems systems{System::one_f_one_b, System::zero_bubble, System::delegated, System::pipemorph,
                               System::readiness,   System::follow,      System::ours};
  return systems;
}

double to_ms(Duration d) { return static_cast<double>(d.count()) / 1e6; }
std::optional<double> to_ms(std::optional<double> seconds) {
  return seconds ? std::optional(*seconds * 1000) : std::nullopt;
}

// The paper's injector occupies the link. Its planner knows no limit of memory; the others ran within zero bubble's.
bool is_as_published(System system, Injection injection, Memory memory) {
  return injection != Injection::latency && memory == (system == System::pipemorph ? Memory::free : Memory::equal);
}

std::string link_names(const std::vector<std::uint32_t>& links) {
  std::string names = links.size() > 1 ? "links" : "link";
  for (std::size_t i = 0; i < links.size(); ++i)
    names += fmt::format("{} {}-{}", i > 0 ? "," : "", links[i], links[i] + 1);
  return names;
}

// One case: a pipeline, what is slow in it, and what an iteration takes besides.
struct Case {
  int figure = 0;
  std::string title;
  Setting setting;  // its injection and memory are set for each cell
  FixedCosts fixed;
  PublishedValues milliseconds;
};

// `slow` links make both injections, none of them makes one cell per memory.
void add_cells(const Case& from, const Systems& systems, Cells& cells) {
  const bool is_slow = !from.setting.slow.empty();
  for (const Injection injection : injections) {
    if (!is_slow && injection == Injection::latency) continue;
    for (const Memory memory : memories)
      for (const System system : systems) {
        Setting setting = from.setting;
        setting.injection = is_slow ? injection : Injection::none;
        setting.memory = memory;
        const Outcome outcome = play(setting, system);
        Cell cell{from.figure, from.title, system, setting.injection, memory, Unit::milliseconds, {}, 0, 0, false};
        cell.measured = to_ms(outcome.makespan + from.fixed.of(system, is_slow));
        cell.activations = outcome.activations;
        cell.held = outcome.held;
        if (is_as_published(system, setting.injection, memory)) cell.published = from.milliseconds.of(system);
        cell.fitted = !is_slow && cell.published.has_value();
        cells.push_back(std::move(cell));
      }
  }
}

PublishedValues in_ms(const PublishedValues& seconds) {
  return {to_ms(seconds.one_f_one_b), to_ms(seconds.zero_bubble), to_ms(seconds.delegated), to_ms(seconds.pipemorph)};
}

std::vector<SlowLink> slow_links(const std::vector<std::uint32_t>& links, Duration delay) {
  std::vector<SlowLink> slow;
  for (const std::uint32_t link : links) slow.push_back({link, delay});
  return slow;
}

Case slow_case(int figure, ModelSize size, const std::vector<std::uint32_t>& links, int delay_ms) {
  const PublishedModel model = published_model(size);
  Case made{figure, std::string(model.name) + ", healthy", setting_of(model, Memory::equal), fixed_costs(size), {}};
  if (delay_ms == 0) return made;
  made.title = fmt::format("{}, {}, {} ms", model.name, link_names(links), delay_ms);
  made.setting.slow = slow_links(links, std::chrono::milliseconds(delay_ms));
  return made;
}

// Figures 1, 15, 16 and 17.
Cells slow_link_figure(int figure) {
  Cells cells;
  for (const SlowLinkCase& published : slow_link_cases()) {
    if (published.figure != figure) continue;
    Case made = slow_case(figure, published.model, published.links, published.delay_ms);
    made.milliseconds = in_ms(published.seconds);
    add_cells(made, figure == 1 ? Systems{System::one_f_one_b, System::zero_bubble} : told_or_not(), cells);
  }
  return cells;
}

constexpr std::uint32_t replica_pipeline_link = 2;  // that takes the slow link's place: the last one, 2-3

// A slow link between two replicas delays every message of the gradients. How many there are was not published: as many
// as make Figure 3's longest delay come out.
void add_replica_cells(int figure, const FixedCosts& fixed, Cells& cells) {
  const Outcome outcome = play(setting_of(published_model(ModelSize::b7), Memory::equal), System::zero_bubble);
  const double healthy = to_ms(outcome.makespan + fixed.zero_bubble);
  const ReplicaLinkCase& longest = replica_link_cases().back();
  const double messages = std::round((longest.on_replicas - replicas_healthy) * 1000 / longest.delay_ms);
  const auto add = [&](std::string title, Injection injection, double seconds, double measured, bool fitted) {
    cells.push_back({figure, std::move(title), System::zero_bubble, injection, Memory::equal, Unit::milliseconds,
                     seconds * 1000, measured, outcome.activations, outcome.held, fitted});
  };
  if (figure == 3) add("7B x 2, healthy", Injection::none, replicas_healthy, healthy, true);
  for (const ReplicaLinkCase& c : replica_link_cases())
    add(fmt::format("7B x 2, between the replicas, {} ms", c.delay_ms), Injection::occupancy, c.on_replicas,
        healthy + messages * c.delay_ms, &c == &longest);
}

// Figures 3 and 19.
Cells replica_link_figure(int figure) {
  const FixedCosts fixed = fixed_costs_of_replicas();
  Cells cells;
  add_replica_cells(figure, fixed, cells);
  for (const ReplicaLinkCase& c : replica_link_cases()) {
    Case made = slow_case(figure, ModelSize::b7, {replica_pipeline_link}, c.delay_ms);
    made.title = fmt::format("7B x 2, {} instead, {} ms", link_names({replica_pipeline_link}), c.delay_ms);
    made.fixed = fixed;
    made.milliseconds = in_ms(c.remapped);
    add_cells(made, figure == 3 ? Systems{System::zero_bubble} : told_or_not(), cells);
  }
  return cells;
}

// What holding the place in the device's queue costs. The published run was slowed by its profiler, so it has a fixed
// cost of its own.
Cells blocking_figure() {
  Cells cells;
  const PublishedModel model = published_model(ModelSize::b7);
  Case healthy{6, "7B profiled, healthy", setting_of(model, Memory::equal), {}, {{}, profiled_healthy_ms, {}, {}}};
  healthy.fixed.zero_bubble = std::chrono::milliseconds(static_cast<int>(profiled_healthy_ms)) -
                              play(healthy.setting, System::zero_bubble).makespan;
  Case slow = healthy;
  slow.title = "7B profiled, link 0-1, 30 ms";
  slow.setting.slow = slow_links({0}, 30ms);
  slow.milliseconds = {{}, profiled_slow_ms, {}, {}};
  Case unblocked = slow;
  unblocked.title = "the same, if no send held up its device";
  unblocked.setting.admission = std::nullopt;
  unblocked.milliseconds = {};
  for (const Case* one : {&healthy, &slow, &unblocked}) add_cells(*one, {System::zero_bubble}, cells);
  return cells;
}

// The pipeline alone, without fixed costs, and how idle its stages are.
Cells trace_figure() {
  Case made = slow_case(14, ModelSize::b7, {2}, 30);
  made.fixed = {};
  made.milliseconds = traced_milliseconds();
  Cells cells;
  add_cells(made, told_or_not(), cells);
  const std::size_t times = cells.size();
  for (std::size_t i = 0; i < times; ++i) {
    Cell idle = cells[i];
    Setting setting = made.setting;
    setting.injection = idle.injection;
    setting.memory = idle.memory;
    idle.title += ", idle";
    idle.unit = Unit::percent;
    idle.measured = 100 * play(setting, idle.system).idle;
    if (idle.published) idle.published = traced_idle_percent().of(idle.system);
    cells.push_back(std::move(idle));
  }
  return cells;
}

Cells healthy_figure() {
  Cells cells;
  for (const ModelSize size : {ModelSize::b7, ModelSize::b14, ModelSize::b30, ModelSize::b60}) {
    Case made = slow_case(21, size, {}, 0);
    made.milliseconds = in_ms(published_model(size).healthy);
    add_cells(made, told_or_not(), cells);
  }
  return cells;
}

// One case of changing delays. `value`: what the figure counts, of the mean iteration.
struct Changing {
  int figure = 0;
  std::string title;
  ChangingSetting setting;
  FixedCosts fixed;
  PublishedValues published;
  Unit unit{};
};

void add_changing_cells(const Changing& from, Cells& cells) {
  Systems systems = told_or_not();
  systems.push_back(System::hindsight);
  for (const Injection injection : injections)
    for (const Memory memory : memories)
      for (const System system : systems) {
        ChangingSetting changing = from.setting;
        changing.setting.injection = injection;
        changing.setting.memory = memory;
        const ChangingOutcome outcome = play_changing(changing, system, from.fixed.of(system, true));
        Cell cell{from.figure, from.title, system, injection, memory, from.unit, {}, 0, 0, 0, false};
        cell.measured = from.unit == Unit::milliseconds ? outcome.mean_ms : 60'000 / outcome.mean_ms;
        cell.activations = outcome.activations;
        cell.held = outcome.held;
        if (is_as_published(system, injection, memory)) cell.published = from.published.of(system);
        cells.push_back(std::move(cell));
      }
}

constexpr Duration past_span = 60s;  // of what has been seen of changing links before the first iteration

// Figure 18: the reference names no links, so all of them change, each by itself.
Cells normal_figure(std::uint64_t seed) {
  Cells cells;
  const auto ms = [](double value) { return std::chrono::duration_cast<Duration>(value * 1ms); };
  for (const ChangingCase& published : changing_cases()) {
    Changing changing{18, {}, {}, fixed_costs(ModelSize::b7), in_ms(published.seconds), Unit::milliseconds};
    changing.title = fmt::format("7B, all links, N({}, {}) ms, each {} to {} ms", changing_mean_ms,
                                 changing_deviation_ms, published.shortest_ms, published.longest_ms);
    ChangingSetting& setting = changing.setting;
    setting.setting = setting_of(published_model(ModelSize::b7), Memory::equal);
    setting.setting.slow = slow_links({0, 1, 2}, {});
    setting.setting.delegates = delegates_for(ms(changing_mean_ms));
    setting.span = 60s;
    const HoldTimes holds{std::chrono::milliseconds(published.shortest_ms),
                          std::chrono::milliseconds(published.longest_ms)};
    const auto course = [&](std::string_view what, std::uint32_t link, Instant end) {
      return normal_course(seed, fmt::format("figure 18 {} {} {}", published.title, what, link), ms(changing_mean_ms),
                           ms(changing_deviation_ms), holds, end);
    };
    for (const SlowLink& slow : setting.setting.slow) {
      setting.courses.push_back(course("run", slow.link, setting.span + past_span));
      setting.past.push_back(course("past", slow.link, past_span));
    }
    setting.beliefs = {10ms, 20ms, 30ms, 40ms, 50ms, 60ms};
    add_changing_cells(changing, cells);
  }
  return cells;
}

constexpr double production_most_ms = 90;     // of the distribution: beyond the 99th percentile nothing was published
constexpr std::uint32_t production_link = 3;  // in the middle: the reference names none

// Figure 22: the published percentiles, and two guesses at how long a delay holds.
Cells production_figure(std::uint64_t seed) {
  Cells cells;
  const DelayQuantiles quantiles(production_median_ms, production_mean_ms, production_p99_ms, production_most_ms);
  struct Holding {
    std::string_view title;
    HoldTimes holds;
  };
  for (const Holding& holding : {Holding{"50 to 200 ms", {50ms, 200ms}}, Holding{"1 to 5 s", {1s, 5s}}}) {
    Changing changing{
        22, {}, {}, fixed_costs(ModelSize::b140), production_iterations_per_minute(), Unit::iterations_per_minute};
    changing.title = fmt::format("140B, {}, each delay {}", link_names({production_link}), holding.title);
    ChangingSetting& setting = changing.setting;
    setting.setting = setting_of(published_model(ModelSize::b140), Memory::equal);
    setting.setting.slow = slow_links({production_link}, {});
    setting.setting.delegates = 6;
    setting.span = 180s;
    const auto course = [&](std::string_view what, Instant end) {
      return quantile_course(seed, fmt::format("figure 22 {} {}", holding.title, what), quantiles, holding.holds, end);
    };
    setting.courses = {course("run", setting.span + past_span)};
    setting.past = {course("past", past_span)};
    setting.beliefs = {10ms, 20ms, 40ms, 60ms, 80ms};
    add_changing_cells(changing, cells);
  }
  return cells;
}

}  // namespace

const std::vector<int>& pipemorph_figures() {
  static const std::vector<int> figures{1, 3, 6, 14, 15, 16, 17, 18, 19, 21, 22};
  return figures;
}

std::vector<Cell> pipemorph_figure(int figure, std::uint64_t seed) {
  switch (figure) {
    case 1:
    case 15:
    case 16:
    case 17:
      return slow_link_figure(figure);
    case 3:
    case 19:
      return replica_link_figure(figure);
    case 6:
      return blocking_figure();
    case 14:
      return trace_figure();
    case 18:
      return normal_figure(seed);
    case 21:
      return healthy_figure();
    case 22:
      return production_figure(seed);
    default:
      STAGECRAFT_ASSERT(false, "figure {} is not among those that are emulated", figure);
  }
}

}  // namespace stagecraft::reproduce
