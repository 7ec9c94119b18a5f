#include "runtime/process/tls_errors.hpp"

#include "runtime/core/log.hpp"
#include "runtime/process/tls_callers.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <dlfcn.h>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/sslerr.h>
#include <string>
#include <sys/epoll.h>
#include <sys/socket.h>

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

std::atomic<int> silence_ms = 0;  ///< 0: no connection is ended for it

// Sets several options: one that the system does not support is skipped.
void end_when_silent(const SSL* on) {
  constexpr int looks = 3;  // at an idle connection, within the time
  const int after = silence_ms;
  const int socket = ::SSL_get_fd(on);
  if (after <= 0 || socket < 0)
    return;
  const auto set = [socket](int level, int option, int value) {
    ::setsockopt(socket, level, option, &value, sizeof value);
  };
  const int seconds = std::max(1, (after + looks * 1000 - 1) / (looks * 1000));
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, seconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, seconds);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, after);
}

/// Outgoing calls of this process during their handshake. Any thread.
class own_calls {
 public:
  void begin(const SSL* on) {
    const std::lock_guard lock(mutex_);
    all_[on] = ::SSL_get_fd(on);
  }
  void end(const SSL* on) {
    const std::lock_guard lock(mutex_);
    all_.erase(on);
  }
  void hang_up() {
    const std::lock_guard lock(mutex_);
    for (const auto& [on, socket] : all_)
      ::shutdown(socket, SHUT_RDWR);
  }

 private:
  std::mutex mutex_;
  std::map<const SSL*, int> all_;
};

/// Same lifetime as callers().
own_calls& calls() {
  static auto& all = *new own_calls;
  return all;
}

/// True for connections of CAF, which passes its socket to OpenSSL. The HTTP server and libcurl
/// read and write their sockets themselves, and have their own timeouts.
bool is_of_caf(const SSL* on) {
  return ::SSL_get_fd(on) >= 0;
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

void end_tls_when_silent(std::chrono::milliseconds after) {
  silence_ms = int(after.count());
}

void hang_up_on_unknown_callers() {
  callers().end_all();
  calls().hang_up();
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
  if (!troupe::runtime::is_of_caf(on))
    return next(on);
  troupe::runtime::end_when_silent(on);
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
  if (!troupe::runtime::is_of_caf(on))
    return next(on);
  troupe::runtime::end_when_silent(on);
  const int result = next(on);
  const int system = errno;
  auto& calls = troupe::runtime::calls();
  if (result != 1 && troupe::runtime::state_of(on, result) == troupe::runtime::handshake::waits)
    calls.begin(on);
  else
    calls.end(on);  // CAF closes a failed call, and its number may be reused
  errno = system;
  return result;
}

void SSL_free(SSL* x) {
  static auto* const next = troupe::runtime::original<decltype(SSL_free)>("SSL_free");
  if (x != nullptr) {
    troupe::runtime::callers().is_gone(x);
    troupe::runtime::calls().end(x);
  }
  next(x);
}

int epoll_ctl(int epoll, int operation, int at, epoll_event* events) noexcept {
  return troupe::runtime::callers().epoll(epoll, operation, at, events);
}

}  // extern "C"
