#include "model/sha256.hpp"

#include <openssl/evp.h>

#include <array>
#include <new>

#include "planning/bug.hpp"

namespace stagecraft {
namespace {

// SHA-256 of memory fails only where OpenSSL itself is broken or forbids it.
void expect(int result) { STAGECRAFT_ASSERT(result == 1, "OpenSSL cannot compute SHA-256; check its configuration"); }

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Context Sha256::make() {
  Context context(EVP_MD_CTX_new());
  if (!context) throw std::bad_alloc();
  return context;
}

Sha256::Sha256() : context_(make()) { expect(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr)); }

Sha256& Sha256::update(std::string_view bytes) {
  expect(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
  return *this;
}

Sha256& Sha256::update(std::uint64_t number) {
  std::array<char, 8> bytes;
  for (char& byte : bytes) byte = static_cast<char>(number & 0xff), number >>= 8;
  return update(std::string_view(bytes.data(), bytes.size()));
}

std::string Sha256::hex() const {
  const Context copy = make();  // finishing ends a context
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int length = 0;
  expect(EVP_MD_CTX_copy_ex(copy.get(), context_.get()));
  expect(EVP_DigestFinal_ex(copy.get(), digest.data(), &length));
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < length; ++i) {
    text += digits[digest[i] >> 4];
    text += digits[digest[i] & 15];
  }
  return text;
}

}  // namespace stagecraft
