// Wishes from outside for a checkpoint, until each has its answer. A pure value; one owner (CoordinatorMachine).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "actors/messages.hpp"

namespace stagecraft {

class SaveWishes {
 public:
  void add(WishId wish) { wishes_.push_back({wish, std::nullopt}); }

  /// Somebody waits for a checkpoint that nobody writes. `saving`: those under way, by the key of the Open that began
  /// them. One that was dropped since is wanted again.
  bool lacking(const std::map<Key, Instant>& saving) const {
    return std::any_of(wishes_.begin(), wishes_.end(), [&](const Wish& w) {
      return !w.begun_with || std::none_of(saving.begin(), saving.end(),
                                           [&](const auto& s) { return s.first.iteration == *w.begun_with; });
    });
  }

  /// The Open of this iteration asks for a checkpoint, which is for everyone who waits.
  void begun(Iteration iteration) {
    for (Wish& w : wishes_) w.begun_with = iteration;
  }

  /// A checkpoint stands, or does not: the answers to those for whom it was.
  std::vector<WishAnswer> over(const CheckpointOutcome& x) {
    std::vector<WishAnswer> answers;
    std::erase_if(wishes_, [&](const Wish& w) {
      if (w.begun_with != x.key.iteration) return false;
      const bool stands = x.error.empty();
      answers.push_back(
          {stands ? WishAnswer::Fate::done : WishAnswer::Fate::given_up,
           w.wish,
           stands ? fmt::format("the checkpoint after iteration {} stands", x.iteration)
                  : fmt::format("the checkpoint after iteration {} does not stand: {}", x.iteration, x.error),
           Iteration{x.iteration},
           {}});
      return true;
    });
    return answers;
  }

 private:
  struct Wish {
    WishId wish;
    std::optional<Iteration> begun_with;  // the Open that asked for its checkpoint; none: none has yet
  };

  std::vector<Wish> wishes_;
};

}  // namespace stagecraft
