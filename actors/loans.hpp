// Who reads the buffers of a state at the moment: whoever steps next moves to buffers of its own first, and what was
// lent keeps what it shows. A value; one owner.
#pragma once

#include <cstdint>
#include <map>

#include "planning/ids.hpp"

namespace stagecraft {

class Loans {
 public:
  void lend(Key key) { ++out_[key]; }
  void back(Key key) {
    const auto it = out_.find(key);
    if (it != out_.end() && --it->second == 0) out_.erase(it);
  }
  /// True when something is lent; from then on the borrowers have the old buffers for themselves.
  bool separate() {
    const bool any = !out_.empty();
    out_.clear();
    return any;
  }

 private:
  std::map<Key, std::uint32_t> out_;
};

}  // namespace stagecraft
