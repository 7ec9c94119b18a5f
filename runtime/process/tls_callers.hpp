// Connections that a port of this process has accepted and that have not shown a certificate yet.
//
// CAF has data to send as soon as it has accepted a caller, and asks epoll for write readiness. The
// socket is always writable while the handshake waits for the caller's next message, so CAF's
// thread would spin. This code narrows CAF's epoll request to what the handshake waits for, until
// it is over.
//
// A caller that never authenticates would hold a descriptor for ever, keep CAF's thread from
// ending, and appear in no log. So each caller has a timeout, the oldest is dropped when there are
// too many, and the first refusal of each kind is logged. A caller that leaves by itself is not
// logged: a process of the run that is killed while it connects looks the same.

#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <sys/epoll.h>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// Maximum number of callers without a certificate.
inline constexpr std::size_t most_unknown_tls_callers = 64;

/// Any thread. The thread that serves a caller makes all calls about it, and `is_gone` before it
/// closes the descriptor. `who` is the OpenSSL connection, used only as an identity.
class tls_callers {
 public:
  using control = int(int epoll, int operation, int at, epoll_event* events);

  using report = std::function<void(const std::string& what)>;

  /// `epoll_control`: the system's function. `tell` logs refusals, on any thread.
  tls_callers(control* epoll_control, report tell)
      : epoll_control_(epoll_control), tell_(std::move(tell)) {}
  ~tls_callers();
  tls_callers(const tls_callers&) = delete;
  tls_callers& operator=(const tls_callers&) = delete;

  /// Sets the handshake timeout; before this call there is none.
  void wait_no_longer_than(std::chrono::milliseconds patience);

  /// The handshake waits for the caller's next message, or until ours can be written.
  void waits(const void* who, int at, bool for_his_word);
  void is_known(const void* who);
  void is_refused(const void* who, int at, const std::string& why);
  /// The caller closed the connection itself; not logged.
  void has_left(const void* who);
  void is_gone(const void* who);

  /// Closes all these connections without a log line: the process ends.
  void end_all();

  /// Replaces epoll_ctl. While the handshake waits for the caller, only read readiness is
  /// requested.
  int epoll(int epoll, int operation, int at, epoll_event* events);

 private:
  using clock = std::chrono::steady_clock;
  struct caller {
    const void* who = nullptr;
    int at = -1;
    clock::time_point since = {};
    bool for_his_word = false;
    bool over = false;  ///< refused or gone; its serving thread closes it
    int epoll = -1;     ///< the epoll instance that watches it
    epoll_event asked = {};
  };

  std::deque<caller>::iterator find(const void* who);
  std::deque<caller>::iterator longest();
  void ask(const caller& x);
  void forget(std::deque<caller>::iterator x);
  void hang_up(caller& x, const std::string& kind, const std::string& why);
  void complain(const std::string& kind, int at, const std::string& why);
  void tell_all(std::unique_lock<std::mutex>& lock);
  void watch();

  control* const epoll_control_;
  const report tell_;
  std::atomic<std::size_t> count_ = 0;  ///< size of all_, read without the lock
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<caller> all_;  ///< in order of arrival
  std::chrono::milliseconds patience_{5000};
  bool ends_ = false;
  std::set<std::string> complained_;
  std::vector<std::string> untold_;  ///< logged after unlocking: a log may block
  std::jthread watch_;
};

/// Numeric address of the other end, "10.0.0.7:51234", also after the connection was reset.
std::string other_end_of(int connection);

}  // namespace troupe::runtime
