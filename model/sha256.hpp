// SHA-256 (FIPS 180-4) of bytes that come in pieces. One owner, one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace stagecraft {

class Sha256 {
 public:
  Sha256();

  Sha256& update(std::string_view bytes);
  /// A number as eight bytes, lowest first.
  Sha256& update(std::uint64_t number);
  /// 64 lower-case hexadecimal digits of all bytes so far. More may follow.
  std::string hex() const;

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  using Context = std::unique_ptr<evp_md_ctx_st, Free>;
  static Context make();

  Context context_;
};

}  // namespace stagecraft
