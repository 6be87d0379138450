// A scenario while it is being read, and what its readers share. Internal to the loader (config/load_scenario.cpp and
// scenario_*.cpp). One thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/reader.hpp"
#include "config/scenario.hpp"

namespace stagecraft {

struct ScenarioDraft {
  Scenario scenario;
  std::set<std::size_t> damaged;  ///< faults with a problem: nothing is concluded from them
  bool all_ids_known = true;      ///< every fault has an id that could be read
};

void read_faults(Section& root, ScenarioDraft& draft, Report& report);
void read_moves(Section& root, ScenarioDraft& draft, Report& report);
void read_expectations(Section& root, ScenarioDraft& draft, Report& report);
void read_calm(Section& root, ScenarioDraft& draft);

/// The key `on` of a fault of that kind.
FaultTarget read_target(Section& fault, FaultKind kind, Report& report);
/// The keys `at`, `when` and `every` of a fault.
Trigger read_trigger(Section& fault, Report& report);

// Checks across the file. Each looks only at values that could be read.

/// Ids are unique, and expectations name faults that there are.
void check_names(const ScenarioDraft& draft, Report& report);
/// Every fault can strike, in this world, before the calm and the deadline.
void check_faults(const ScenarioDraft& draft, Report& report);
/// Every expectation about iteration times has an iteration to look at. `last_iteration`: of the job, where it is
/// known. `damaged`: faults from which nothing is concluded.
void check_spans(const Scenario& scenario, const std::set<std::size_t>& damaged,
                 std::optional<std::uint32_t> last_iteration, Report& report);

/// Every move can be made, after those before it.
void check_moves(const Scenario& scenario, const Topology& topology, Report& report);

// Shared by several sections.

inline constexpr std::uint32_t most_iterations = 1'000'000'000;
inline constexpr Bounds<Duration> waiting_time{.low = std::chrono::microseconds(1), .high = std::chrono::hours(24 * 7)};
inline constexpr Bounds<Duration> fault_time{.low = std::chrono::microseconds(1), .high = std::chrono::hours(1)};

struct ChosenKey {
  std::string_view key;
  Value value;
};

/// The one key of these that the section gives. None (where one is required, and no unknown key stands for it) or
/// several are reported; several give nothing. Marks all of them as known.
std::optional<ChosenKey> choose_key(Section& section, std::span<const std::string_view> keys, bool required,
                                    Report& report);
std::optional<ChosenKey> choose_key(Section& section, std::initializer_list<std::string_view> keys, bool required,
                                    Report& report);

/// The iteration in which the fault begins at the first time, where the trigger says it.
std::optional<Iteration> begins_in(const FaultSpec& fault);
/// The first of that id; the number of faults when there is none.
std::size_t find_fault(const Scenario& scenario, std::string_view id);

/// A word that `name_of` knows, out of the first `count` of its enumeration.
template <class E>
std::optional<E> read_named(const Value& value, std::size_t count, Report& report) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < count; ++i) words.emplace_back(name_of(static_cast<E>(i)));
  const auto index = read_choice(value, words, report);
  if (!index) return std::nullopt;
  return static_cast<E>(*index);
}

/// A number that names something; empty when it is not given. `at` becomes its place.
template <class I>
std::optional<I> read_id(Section& section, std::string_view key, std::uint32_t low, std::uint32_t high, Position& at) {
  const auto field = section.integer<std::uint32_t>(key, low, high, low);
  at = field.at;
  if (!field.given || !field.valid) return std::nullopt;
  return I{field.value};
}

}  // namespace stagecraft
