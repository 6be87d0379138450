#include "model/checksum.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <new>

#include "planning/bug.hpp"

namespace stagecraft {

void Checksum::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

Checksum::Checksum() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  STAGECRAFT_ASSERT(XXH3_128bits_reset(state_.get()) == XXH_OK, "xxhash cannot begin a checksum");
}

Checksum& Checksum::update(std::string_view bytes) {
  STAGECRAFT_ASSERT(XXH3_128bits_update(state_.get(), bytes.data(), bytes.size()) == XXH_OK, "xxhash refused {} bytes",
                    bytes.size());
  return *this;
}

std::string Checksum::hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace stagecraft
