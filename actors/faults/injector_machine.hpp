// When the faults of a scenario strike and heal, as a pure value: what the run tells and the time in, strikes and
// heals out. Chance only from the seed. One owner; not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "config/scenario.hpp"
#include "planning/random.hpp"

namespace stagecraft {

/// What a run tells. Fields that an event has no value for are empty.
struct Happened {
  RunEvent event = RunEvent::opened;
  Iteration iteration;
  std::optional<Place> place{};
  std::optional<MicroBatch> micro_batch{};
};

/// A fault begins, or ends.
struct FaultSwitch {
  std::size_t fault = 0;  ///< index into Scenario::faults
  bool on = true;
  bool operator==(const FaultSwitch&) const = default;
};

class InjectorMachine {
 public:
  InjectorMachine(std::vector<FaultSpec> faults, std::optional<Calm> calm, std::uint64_t seed);

  /// Heals before it strikes; in the order of the file.
  std::vector<FaultSwitch> step(const Happened& event, Instant now);
  /// When a fault strikes or heals by the clock.
  std::vector<FaultSwitch> tick(Instant now);
  /// One fault more, which strikes now; its index is the next one.
  std::vector<FaultSwitch> inject(const FaultSpec& fault, Instant now);
  /// Now, and not when its time is over. Empty: it is not in force.
  std::vector<FaultSwitch> heal(std::size_t fault);
  bool is_in_force(std::size_t fault) const { return states_[fault].active; }
  const std::vector<FaultSpec>& faults() const { return faults_; }
  /// When it wants its next tick at the latest; empty: nothing waits for the clock.
  std::optional<Instant> deadline() const;
  /// The newest iteration that has opened.
  Iteration iteration() const { return iteration_; }
  /// It looks at events of this kind.
  bool wants(RunEvent event) const;

 private:
  struct State {
    std::uint32_t strikes = 0;
    bool active = false;
    std::optional<Instant> strike_at, heal_at;
    std::optional<Iteration> heal_before;
    Entropy draws;
  };

  State new_state(const FaultSpec& fault) const;
  void begin(Instant now);
  bool struck_by(const FaultSpec& fault, const Happened& event) const;
  void strike(std::size_t i, Instant now, std::vector<FaultSwitch>& out);
  void heal(std::size_t i, std::vector<FaultSwitch>& out);
  void draw_next(std::size_t i, Instant now);

  std::vector<FaultSpec> faults_;
  std::optional<Calm> calm_;
  std::uint64_t seed_;
  std::vector<State> states_;
  Iteration iteration_;  // the newest that has opened
  bool begun_ = false, calm_now_ = false;
};

}  // namespace stagecraft
