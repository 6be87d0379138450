// The stamps of one end of a link, for the straggler detector: of the tensors that it sends, complete once their
// credits are back; and of what came from the other end, until its credit passes. A value; one owner: the link end.
#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "actors/messages.hpp"

namespace stagecraft {

class LinkStamps {
 public:
  // -- what this end sends, in one iteration
  void announced(MicroBatch m, Instant at) { announced_[m] = at; }
  void handed_over(MicroBatch m, Instant at, Bytes bytes) {
    sent_.push_back(m);
    stamps_[m] = {at, Credit::never, {}, bytes, {}};
  }
  void left(MicroBatch m, Instant at) { left_[m] = at; }
  /// `now`: when the credit came. What the receiver kept is taken off by its own clock.
  void credited(const Credit& x, Instant now) {
    const auto it = stamps_.find(x.micro_batch);
    if (it == stamps_.end() || x.arrived == Credit::never) return;
    MessageStamps& stamps = it->second;
    stamps.arrived = x.arrived;
    stamps.round_trip = now - stamps.handed_over - (x.due - x.arrived);
    if (const auto left = left_.find(x.micro_batch); left != left_.end())
      trips_.push_back(stamps.round_trip - (left->second - stamps.handed_over));
    const auto told = announced_.find(x.micro_batch);
    if (told != announced_.end() && x.announced != Credit::never)
      stamps.announcement = AnnouncementStamps{told->second, x.announced};
  }
  /// The lower quartile of the time from leaving this end to the credit's return, less what the receiver kept. Before
  /// take().
  Duration round_trip() {
    if (trips_.empty()) return {};
    const auto quartile = trips_.begin() + static_cast<std::ptrdiff_t>(trips_.size() / 4);
    std::nth_element(trips_.begin(), quartile, trips_.end());
    return *quartile;
  }
  /// Those that are complete, in order of hand-over; the next iteration begins.
  std::vector<MessageStamps> take() {
    std::vector<MessageStamps> complete;
    for (const MicroBatch m : sent_)
      if (const MessageStamps& stamps = stamps_.at(m); stamps.arrived != Credit::never) complete.push_back(stamps);
    sent_.clear();
    stamps_.clear();
    announced_.clear();
    left_.clear();
    trips_.clear();
    return complete;
  }

  // -- what comes from the other end
  void announcement_came(Key key, MicroBatch m, Instant at) { of(key)[m].announcement = at; }
  void tensor_came(Key key, MicroBatch m, Instant at) { of(key)[m].tensor = at; }
  void fill_in(Credit& x) const {
    const auto it = came_.find(x.micro_batch);
    if (x.key != came_key_ || it == came_.end()) return;
    x.arrived = it->second.tensor;
    x.announced = it->second.announcement;
  }

 private:
  struct Times {
    Instant tensor = Credit::never, announcement = Credit::never;
  };
  using Came = std::map<MicroBatch, Times>;
  Came& of(Key key) {
    if (key != came_key_) came_.clear();
    came_key_ = key;
    return came_;
  }

  std::vector<MicroBatch> sent_;
  std::map<MicroBatch, MessageStamps> stamps_;
  std::map<MicroBatch, Instant> announced_, left_;
  std::vector<Duration> trips_;
  Key came_key_;
  Came came_;
};

}  // namespace stagecraft
