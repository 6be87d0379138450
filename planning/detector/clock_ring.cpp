#include "planning/detector/clock_ring.hpp"

#include <cmath>
#include <vector>

#include "planning/bug.hpp"
#include "planning/detector/statistics.hpp"

namespace stagecraft {

void ClockRing::add(Iteration at, const OneWays& read) {
  blocks_.push_back({at, read});
  if (blocks_.size() > kept) blocks_.pop_front();
  if (blocks_.size() >= enough) learn_drift();
}

// Between the medians of the older and the newer half.
void ClockRing::learn_drift() {
  const std::size_t half = blocks_.size() / 2;
  const auto middle = [&](std::size_t from, std::size_t to, auto of) {
    std::vector<double> values;
    for (std::size_t i = from; i < to; ++i) values.push_back(of(blocks_[i]));
    return robust::median(robust::sorted(std::move(values)));
  };
  const auto offset = [](const Block& b) { return (b.read[0] - b.read[1]) / 2; };
  const auto when = [](const Block& b) { return static_cast<double>(b.at.value); };
  const double apart = middle(half, blocks_.size(), when) - middle(0, half, when);
  drift_ = (middle(half, blocks_.size(), offset) - middle(0, half, offset)) / apart;
}

OneWays ClockRing::expected(Iteration at, Iteration before) const {
  STAGECRAFT_ASSERT(!blocks_.empty(), "no block to expect anything from");
  const bool all = blocks_.front().at >= before;
  std::array<std::vector<double>, 2> values;
  for (const Block& block : blocks_) {
    if (!all && block.at >= before) break;
    const double moved = drift_ * (static_cast<double>(at.value) - static_cast<double>(block.at.value));
    values[0].push_back(block.read[0] + moved);
    values[1].push_back(block.read[1] - moved);
  }
  return {robust::median(robust::sorted(std::move(values[0]))), robust::median(robust::sorted(std::move(values[1])))};
}

std::optional<double> ClockRing::step(Iteration at, const OneWays& read, double least, double stands) {
  if (blocks_.empty()) {
    add(at, read);
    return std::nullopt;
  }
  const OneWays expect = expected(at, at);
  const OneWays off{read[0] - expect[0], read[1] - expect[1]};
  const double moved = (off[0] - off[1]) / 2;
  if (std::abs(moved) <= least || std::abs(off[0] + off[1]) > stands) {
    suspected_.reset();
    add(at, read);
    return std::nullopt;
  }
  if (!suspected_ || (*suspected_ > 0) != (moved > 0)) {
    suspected_ = moved;
    return std::nullopt;
  }
  suspected_.reset();
  for (Block& block : blocks_) block.read[0] += moved, block.read[1] -= moved;
  add(at, read);
  return moved;
}

}  // namespace stagecraft
