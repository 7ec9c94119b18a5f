#include "runtime/process/tls_errors.hpp"

#include <dlfcn.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

namespace {

/// OpenSSL's own.
template <class Function>
Function* original(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int SSL_read(SSL* on, void* to, int bytes) {
  static auto* const next = original<decltype(SSL_read)>("SSL_read");
  ERR_clear_error();
  return next(on, to, bytes);
}

int SSL_write(SSL* on, const void* from, int bytes) {
  static auto* const next = original<decltype(SSL_write)>("SSL_write");
  ERR_clear_error();
  return next(on, from, bytes);
}

int SSL_accept(SSL* on) {
  static auto* const next = original<decltype(SSL_accept)>("SSL_accept");
  ERR_clear_error();
  return next(on);
}

int SSL_connect(SSL* on) {
  static auto* const next = original<decltype(SSL_connect)>("SSL_connect");
  ERR_clear_error();
  return next(on);
}

}  // extern "C"

namespace troupe::runtime {

void keep_tls_errors_apart() {}

}  // namespace troupe::runtime
