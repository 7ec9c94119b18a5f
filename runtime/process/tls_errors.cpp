#include "runtime/process/tls_errors.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <deque>
#include <dlfcn.h>
#include <mutex>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <set>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>

namespace troupe::runtime {
namespace {

/// OpenSSL's own.
template <class Function>
Function* original(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

std::string caller_at(int connection) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  std::array<char, NI_MAXHOST> host = {};
  std::array<char, NI_MAXSERV> port = {};
  const auto at = reinterpret_cast<sockaddr*>(&address);
  if (::getpeername(connection, at, &size) != 0
      || ::getnameinfo(at,
                       size,
                       host.data(),
                       host.size(),
                       port.data(),
                       port.size(),
                       NI_NUMERICHOST | NI_NUMERICSERV)
             != 0)
    return "somebody";
  return fmt::format("{}:{}", host.data(), port.data());
}

/// For one who has been accepted to show his certificate. CAF asks for it again and again while he
/// says nothing, since it has words for him, and would neither rest nor end its threads before.
constexpr auto patience = std::chrono::seconds(5);

/// Those whom this process has accepted and does not know yet. Any thread.
class unknown_callers {
 public:
  void waits(const SSL* who) {
    const std::lock_guard lock(mutex_);
    if (const auto known = find(who); known != all_.end()) {
      if (clock::now() - known->since < patience)
        return;
      hang_up(*known,
              "silent",
              fmt::format("it has not shown within {} s who it is", patience.count()));
      all_.erase(known);
      return;
    }
    struct stat about = {};
    const int at = ::SSL_get_fd(who);
    if (::fstat(at, &about) != 0)
      return;
    while (all_.size() >= most_unknown_tls_callers) {
      hang_up(all_.front(),
              "crowded",
              fmt::format("{} callers have not shown who they are, and the one who has taken "
                          "longest makes room",
                          all_.size()));
      all_.pop_front();
    }
    all_.push_back({who, at, about.st_ino, clock::now()});
  }

  void ends(const SSL* who) {
    const std::lock_guard lock(mutex_);
    if (const auto at = find(who); at != all_.end())
      all_.erase(at);
  }

  void is_refused(const SSL* who, const std::string& why) {
    ends(who);
    const std::lock_guard lock(mutex_);
    complain(why, ::SSL_get_fd(who), why);
  }

 private:
  using clock = std::chrono::steady_clock;
  struct caller {
    const SSL* who = nullptr;
    int at = -1;
    ino_t socket = 0;  ///< the descriptor may have become another's meanwhile
    clock::time_point since = {};
  };

  std::deque<caller>::iterator find(const SSL* who) {
    return std::find_if(all_.begin(), all_.end(), [&](const auto& x) { return x.who == who; });
  }

  // Its end is read by the thread that serves it, which then closes it.
  void hang_up(const caller& x, const std::string& kind, const std::string& why) {
    struct stat about = {};
    if (::fstat(x.at, &about) != 0 || about.st_ino != x.socket)
      return;
    complain(kind, x.at, why);
    ::shutdown(x.at, SHUT_RDWR);
  }

  void complain(const std::string& kind, int at, const std::string& why) {
    if (complained_.insert(kind).second)
      log_warning(
          "a port of this process: a caller from {} was refused: {}. This is said once: "
          "others of this kind are refused without a word",
          caller_at(at),
          why);
  }

  std::mutex mutex_;
  std::deque<caller> all_;
  std::set<std::string> complained_;
};

unknown_callers& callers() {
  static unknown_callers all;
  return all;
}

/// Why OpenSSL refused, and empty where it only has to wait.
std::string refusal_of(const SSL* on, int result, int system) {
  switch (::SSL_get_error(on, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      return {};
    case SSL_ERROR_SSL: {
      const auto* const why = ::ERR_reason_error_string(::ERR_peek_error());
      return fmt::format("it has no certificate of this run, or does not speak TLS ({})",
                         why == nullptr ? "no reason given" : why);
    }
    default:
      return system == 0 || system == EPIPE || system == ECONNRESET
                 ? "it left before it had shown who it is"
                 : system_message(system);
  }
}

}  // namespace

void keep_tls_errors_apart() {}

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
  errno = 0;
  const int result = next(on);
  const int system = errno;
  auto& callers = troupe::runtime::callers();
  if (result == 1)
    callers.ends(on);
  else if (const auto why = troupe::runtime::refusal_of(on, result, system); why.empty())
    callers.waits(on);
  else
    callers.is_refused(on, why);
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
    troupe::runtime::callers().ends(x);
  next(x);
}

}  // extern "C"
