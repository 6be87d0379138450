#include "transport/secret.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "planning/bug.hpp"

namespace stagecraft {

std::string make_secret() {
  std::string secret(32, '\0');
  const int made = RAND_bytes(reinterpret_cast<unsigned char*>(secret.data()), static_cast<int>(secret.size()));
  STAGECRAFT_ASSERT(made == 1, "the operating system gives no random bytes");
  return secret;
}

LaneToken lane_token(std::string_view secret, std::string_view name) {
  LaneToken token{};
  unsigned int size = 0;
  const unsigned char* made = HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                                   reinterpret_cast<const unsigned char*>(name.data()), name.size(),
                                   reinterpret_cast<unsigned char*>(token.data()), &size);
  STAGECRAFT_ASSERT(made && size == token.size(), "HMAC-SHA-256 gave {} bytes", size);
  return token;
}

}  // namespace stagecraft
