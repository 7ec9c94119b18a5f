// Who has been accepted at a port of this process and has not shown a certificate yet.
//
// CAF has words for a caller as soon as it has accepted him, and asks to be woken when they can be
// written: always, while the handshake waits for his next word. Its thread then tried without rest.
// So the kernel is asked on its behalf only for what the handshake waits for, until that is over.
//
// A caller who never shows who he is holds a descriptor for ever, keeps CAF's thread from ending,
// and says nothing in any log. So he has only so much time, the one who has taken longest makes
// room when there are many, and the first of each kind that is refused is told. One who leaves by
// himself is not: a process of the run that is killed as it calls does that, too.

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

/// Callers that have not shown yet that they have a certificate of the run: as many may wait.
inline constexpr std::size_t most_unknown_tls_callers = 64;

/// Any thread. What is said of a caller comes from the thread that serves him, and `is_gone` before
/// his descriptor is closed. `who` is his connection with OpenSSL, and only a name here.
class tls_callers {
 public:
  using control = int(int epoll, int operation, int at, epoll_event* events);

  using report = std::function<void(const std::string& what)>;

  /// `epoll_control`: the system's. `tell`: of those who are refused, on any thread.
  tls_callers(control* epoll_control, report tell)
      : epoll_control_(epoll_control), tell_(std::move(tell)) {}
  ~tls_callers();
  tls_callers(const tls_callers&) = delete;
  tls_callers& operator=(const tls_callers&) = delete;

  /// For one who has been accepted to show his certificate. Before this is said he has for ever.
  void wait_no_longer_than(std::chrono::milliseconds patience);

  /// His handshake waits for his next word, or until ours can be written.
  void waits(const void* who, int at, bool for_his_word);
  void is_known(const void* who);
  void is_refused(const void* who, int at, const std::string& why);
  /// By himself: nobody has refused him, and nothing is told.
  void has_left(const void* who);
  void is_gone(const void* who);

  /// Hangs up on all, without a word: the process ends.
  void end_all();

  /// In the place of the system's: of a caller whose next word is waited for, only that is asked.
  int epoll(int epoll, int operation, int at, epoll_event* events);

 private:
  using clock = std::chrono::steady_clock;
  struct caller {
    const void* who = nullptr;
    int at = -1;
    clock::time_point since = {};
    bool for_his_word = false;
    bool over = false;  ///< he is refused or has left, and is to be closed by who serves him
    int epoll = -1;     ///< that looks at him
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
  std::atomic<std::size_t> count_ = 0;  ///< of all_, for those who have no caller here
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<caller> all_;  ///< in the order in which they came
  std::chrono::milliseconds patience_{5000};
  bool ends_ = false;
  std::set<std::string> complained_;
  std::vector<std::string> untold_;  ///< a log may wait, and nobody of this process for it
  std::jthread watch_;
};

/// Numeric, "10.0.0.7:51234": who is at the other end of that connection, or was.
std::string other_end_of(int connection);

}  // namespace troupe::runtime
