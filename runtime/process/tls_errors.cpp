#include "runtime/process/tls_errors.hpp"

#include "runtime/core/log.hpp"
#include "runtime/process/tls_callers.hpp"

#include <cerrno>
#include <cstdint>
#include <dlfcn.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/sslerr.h>
#include <string>
#include <sys/epoll.h>

namespace troupe::runtime {
namespace {

template <class Function>
Function* original(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

/// Never destroyed: CAF's threads and ours may outlive static destruction.
tls_callers& callers() {
  static auto& all = *new tls_callers(original<tls_callers::control>("epoll_ctl"),
                                      [](const std::string& what) { log_warning("{}", what); });
  return all;
}

enum class handshake : std::uint8_t { waits, left, refused };

handshake state_of(const SSL* on, int result) {
  switch (::SSL_get_error(on, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      return handshake::waits;
    case SSL_ERROR_SSL:
      return ERR_GET_REASON(::ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING
                 ? handshake::left
                 : handshake::refused;
    default:
      return handshake::left;
  }
}

std::string refusal() {
  const auto* const why = ::ERR_reason_error_string(::ERR_peek_error());
  return fmt::format("it has no certificate of this run, or does not speak TLS ({})",
                     why == nullptr ? "no reason given" : why);
}

}  // namespace

void stand_before_tls(std::chrono::milliseconds patience) {
  callers().wait_no_longer_than(patience);
}

void hang_up_on_unknown_callers() {
  callers().end_all();
}

}  // namespace troupe::runtime

extern "C" {

int SSL_read(SSL* on, void* to, int bytes) {
  static auto* const next = troupe::runtime::original<decltype(SSL_read)>("SSL_read");
  ERR_clear_error();
  return next(on, to, bytes);
}

int SSL_write(SSL* on, const void* from, int bytes) {
  static auto* const next = troupe::runtime::original<decltype(SSL_write)>("SSL_write");
  ERR_clear_error();
  return next(on, from, bytes);
}

int SSL_accept(SSL* on) {
  static auto* const next = troupe::runtime::original<decltype(SSL_accept)>("SSL_accept");
  ERR_clear_error();
  const int result = next(on);
  const int system = errno;
  auto& callers = troupe::runtime::callers();
  using troupe::runtime::handshake;
  if (const auto state = troupe::runtime::state_of(on, result); result == 1)
    callers.is_known(on);
  else if (state == handshake::waits)
    callers.waits(on, SSL_get_fd(on), SSL_want_read(on));
  else if (state == handshake::refused)
    callers.is_refused(on, SSL_get_fd(on), troupe::runtime::refusal());
  else
    callers.has_left(on);
  errno = system;
  return result;
}

int SSL_connect(SSL* on) {
  static auto* const next = troupe::runtime::original<decltype(SSL_connect)>("SSL_connect");
  ERR_clear_error();
  return next(on);
}

void SSL_free(SSL* x) {
  static auto* const next = troupe::runtime::original<decltype(SSL_free)>("SSL_free");
  if (x != nullptr)
    troupe::runtime::callers().is_gone(x);
  next(x);
}

int epoll_ctl(int epoll, int operation, int at, epoll_event* events) noexcept {
  return troupe::runtime::callers().epoll(epoll, operation, at, events);
}

}  // extern "C"
