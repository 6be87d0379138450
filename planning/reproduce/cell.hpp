// The vocabulary of a paper's tables beside ours: systems, how links are slow, what stages may hold, and one cell with
// what was published and what is measured. Values only; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stagecraft::reproduce {

enum class System : std::uint8_t {
  one_f_one_b,  ///< 1F1B in its fixed order, over device-ordered routes
  zero_bubble,  ///< zero bubble in its fixed order, over device-ordered routes
  delegated,    ///< the same order, delegates send on the slow links
  pipemorph,    ///< the published planner, told the delays; its list in a fixed order, delegates
  readiness,    ///< the zero-bubble list as a fixed hint: what is ready and fits runs at once (as RRFP); delegates
  follow,       ///< the same list under rule `follow`, told nothing of the delays; delegates
  ours,         ///< our planner, told what PipeMorph's is told; its list is followed; delegates
  hindsight,    ///< ours with the best of many plans for the delays that are going to come: nobody can know them
};
constexpr std::size_t system_count = 8;

enum class Injection : std::uint8_t {
  none,       ///< no link is slow
  occupancy,  ///< a message holds the link for so long: the published injector
  latency,    ///< a message arrives so much later, and holds up no other
};

/// What a stage may hold between F and W.
enum class Memory : std::uint8_t {
  equal,  ///< as many micro-batches as zero bubble holds: 2p - 1
  free,   ///< any number
};

enum class Unit : std::uint8_t { milliseconds, percent, iterations_per_minute };

/// The names that tables and JSON use: 1f1b, zero-bubble, delegated, ...; none, occupancy, latency; equal, free; ms, %,
/// it/min.
std::string_view name_of(System system);
std::string_view name_of(Injection injection);
std::string_view name_of(Memory memory);
std::string_view name_of(Unit unit);

struct Cell {
  int figure = 0;
  std::string title;  ///< of the case: "14B, link 6-7, 60 ms"
  System system{};
  Injection injection{};
  Memory memory{};
  Unit unit{};
  std::optional<double> published;  ///< where the paper measured under this injection and memory
  double measured = 0;
  std::uint32_t activations = 0;  ///< the most that a stage holds between F and B, in micro-batches
  std::uint32_t held = 0;         ///< the same between F and W
  bool fitted = false;            ///< a constant was fitted to the published value of this very cell
};

}  // namespace stagecraft::reproduce
