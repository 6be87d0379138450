// A fast checksum of much data (XXH3, 128 bits): it finds what a disk or a crash did, at the speed of memory. It is no
// seal against people; the hashes of a run (model/sha256.hpp) are. `xxhsum -H2 FILE` prints the same digits.
// Thread promise: values; one owner.
#pragma once

#include <memory>
#include <string>
#include <string_view>

struct XXH3_state_s;

namespace stagecraft {

class Checksum {
 public:
  Checksum();
  Checksum& update(std::string_view bytes);
  /// Of all so far, in 32 digits.
  std::string hex() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace stagecraft
