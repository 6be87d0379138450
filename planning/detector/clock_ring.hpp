// What the one-way delays of a link's two directions were lately, and so what they would be now if nothing but the
// clocks of its ends had moved. Pure; one owner; not thread-safe.
//
// With q the offset of the two clocks, one-way delays read forward + q and backward - q: drift and steps of a clock
// move them apart, a slower link does not. So their difference may be extrapolated, and steps of it taken out.
#pragma once

#include <array>
#include <deque>
#include <optional>

#include "planning/ids.hpp"

namespace stagecraft {

using OneWays = std::array<double, 2>;  ///< by Direction, ns, each with the offset of the clocks

class ClockRing {
 public:
  void add(Iteration at, const OneWays& read);
  /// A change of the link: what was is no guide any more, but for the drift of the clocks.
  void clear() { blocks_.clear(), suspected_.reset(); }
  bool empty() const { return blocks_.empty(); }
  /// Not empty. From what was added for iterations before `before`; from all, where nothing was.
  OneWays expected(Iteration at, Iteration before) const;

  /// A clock stepped: the second block in a row, in which no other change is suspected, has both directions off by more
  /// than `least` in opposite ways, while their sum stands within `stands`. How far, seen from the forward direction;
  /// the ring has moved along then. A block with a first suspicion is not added.
  std::optional<double> step(Iteration at, const OneWays& read, double least, double stands);

 private:
  struct Block {
    Iteration at;
    OneWays read;
  };
  static constexpr std::size_t kept = 24;
  static constexpr std::size_t enough = 12;  // blocks that a drift is taken from

  void learn_drift();

  std::deque<Block> blocks_;
  double drift_ = 0;  // of the offset, ns per iteration
  std::optional<double> suspected_;
};

}  // namespace stagecraft
