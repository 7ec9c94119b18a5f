#include "runtime/process/tls_callers.hpp"

#include "runtime/core/thread.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <utility>

namespace troupe::runtime {
namespace {

epoll_event asked_for(const epoll_event& asked, bool for_his_word) {
  auto out = asked;
  if (for_his_word && (asked.events & EPOLLIN) != 0)
    out.events &= ~std::uint32_t(EPOLLOUT);
  return out;
}

}  // namespace

// getpeername fails after the peer has reset the connection.
std::string other_end_of(int connection) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  std::array<char, NI_MAXHOST> host = {};
  std::array<char, NI_MAXSERV> port = {};
  const auto at = reinterpret_cast<sockaddr*>(&address);
  if (::getsockname(connection, at, &size) != 0  // gives the address size
      || ::getsockopt(connection, SOL_SOCKET, SO_PEERNAME, at, &size) != 0
      || ::getnameinfo(at,
                       size,
                       host.data(),
                       host.size(),
                       port.data(),
                       port.size(),
                       NI_NUMERICHOST | NI_NUMERICSERV)
             != 0)
    return "an unknown address";
  return address.ss_family == AF_INET6 ? fmt::format("[{}]:{}", host.data(), port.data())
                                       : fmt::format("{}:{}", host.data(), port.data());
}

tls_callers::~tls_callers() {
  const std::lock_guard lock(mutex_);
  ends_ = true;
  changed_.notify_one();
}

void tls_callers::wait_no_longer_than(std::chrono::milliseconds patience) {
  const std::lock_guard lock(mutex_);
  patience_ = patience;
  if (!watch_.joinable())
    watch_ = start_thread("tls callers", [this] { watch(); });
  changed_.notify_one();
}

void tls_callers::waits(const void* who, int at, bool for_his_word) {
  std::unique_lock lock(mutex_);
  if (const auto known = find(who); known != all_.end()) {
    if (std::exchange(known->for_his_word, for_his_word) != for_his_word)
      ask(*known);
    return;
  }
  const auto waiting
      = std::count_if(all_.begin(), all_.end(), [](const auto& x) { return !x.over; });
  if (std::size_t(waiting) >= most_unknown_tls_callers)
    hang_up(*longest(),
            "crowded",
            fmt::format("{} callers have not authenticated yet; the oldest one is disconnected",
                        waiting));
  all_.push_back({.who = who, .at = at, .since = clock::now(), .for_his_word = for_his_word});
  count_ = all_.size();
  changed_.notify_one();
  tell_all(lock);
}

void tls_callers::is_known(const void* who) {
  const std::lock_guard lock(mutex_);
  const auto x = find(who);
  if (x == all_.end())
    return;
  if (std::exchange(x->for_his_word, false))
    ask(*x);
  forget(x);
}

void tls_callers::is_refused(const void* who, int at, const std::string& why) {
  std::unique_lock lock(mutex_);
  const auto x = find(who);
  if (x == all_.end() || !std::exchange(x->over, true))
    complain(why, at, why);
  tell_all(lock);
}

void tls_callers::has_left(const void* who) {
  const std::lock_guard lock(mutex_);
  if (const auto x = find(who); x != all_.end())
    x->over = true;
}

void tls_callers::is_gone(const void* who) {
  const std::lock_guard lock(mutex_);
  if (const auto x = find(who); x != all_.end())
    forget(x);
}

void tls_callers::end_all() {
  const std::lock_guard lock(mutex_);
  for (auto& x : all_)
    if (!std::exchange(x.over, true))
      ::shutdown(x.at, SHUT_RDWR);
}

int tls_callers::epoll(int epoll, int operation, int at, epoll_event* events) {
  if (count_ == 0 || operation == EPOLL_CTL_DEL || events == nullptr)
    return epoll_control_(epoll, operation, at, events);
  const std::lock_guard lock(mutex_);
  const auto x = std::find_if(all_.begin(), all_.end(), [&](const auto& y) { return y.at == at; });
  if (x == all_.end())
    return epoll_control_(epoll, operation, at, events);
  x->epoll = epoll;
  x->asked = *events;
  auto told = asked_for(x->asked, x->for_his_word);
  return epoll_control_(epoll, operation, at, &told);
}

std::deque<tls_callers::caller>::iterator tls_callers::find(const void* who) {
  return std::find_if(all_.begin(), all_.end(), [&](const auto& x) { return x.who == who; });
}

std::deque<tls_callers::caller>::iterator tls_callers::longest() {
  return std::find_if(all_.begin(), all_.end(), [](const auto& x) { return !x.over; });
}

// Fails when CAF no longer watches the caller; that is harmless.
void tls_callers::ask(const caller& x) {
  auto told = asked_for(x.asked, x.for_his_word);
  if (x.epoll >= 0)
    epoll_control_(x.epoll, EPOLL_CTL_MOD, x.at, &told);
}

void tls_callers::forget(std::deque<caller>::iterator x) {
  all_.erase(x);
  count_ = all_.size();
}

// The serving thread reads the end of the stream and closes the connection.
void tls_callers::hang_up(caller& x, const std::string& kind, const std::string& why) {
  complain(kind, x.at, why);
  x.over = true;
  ::shutdown(x.at, SHUT_RDWR);
}

void tls_callers::complain(const std::string& kind, int at, const std::string& why) {
  if (complained_.insert(kind).second)
    untold_.push_back(
        fmt::format("a port of this process: a caller from {} was refused: {}. Logged once; "
                    "further refusals of this kind are not logged",
                    other_end_of(at),
                    why));
}

void tls_callers::tell_all(std::unique_lock<std::mutex>& lock) {
  const auto all = std::exchange(untold_, {});
  lock.unlock();
  for (const auto& x : all)
    tell_(x);
  lock.lock();
}

// CAF has no timeout for silent callers.
void tls_callers::watch() {
  for (std::unique_lock lock(mutex_); !ends_;) {
    const auto x = longest();
    if (x == all_.end())
      changed_.wait(lock);
    else if (const auto until = x->since + patience_; clock::now() < until)
      changed_.wait_until(lock, until);
    else {
      hang_up(*x,
              "silent",
              fmt::format("it did not authenticate within {} s",
                          std::chrono::duration<double>(patience_).count()));
      tell_all(lock);
    }
  }
}

}  // namespace troupe::runtime
