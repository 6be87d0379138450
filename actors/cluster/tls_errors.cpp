#include "actors/cluster/tls_errors.hpp"

#include <dlfcn.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <cstddef>

// In place of libssl's, for the libraries too that this program loads: the dynamic linker looks here first.
extern "C" {

int SSL_read(SSL* ssl, void* buffer, int size) {
  ERR_clear_error();
  std::size_t done = 0;
  return size > 0 && SSL_read_ex(ssl, buffer, static_cast<std::size_t>(size), &done) == 1 ? static_cast<int>(done) : -1;
}

int SSL_write(SSL* ssl, const void* buffer, int size) {
  ERR_clear_error();
  std::size_t done = 0;
  return size > 0 && SSL_write_ex(ssl, buffer, static_cast<std::size_t>(size), &done) == 1 ? static_cast<int>(done)
                                                                                           : -1;
}

}  // extern "C"

namespace stagecraft {

bool tls_errors_stay_apart() {
  // What a look-up by name finds is what the libraries call.
  return reinterpret_cast<void*>(&SSL_read) == dlsym(RTLD_DEFAULT, "SSL_read");
}

}  // namespace stagecraft
