#include "runtime/process/agent_loop.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/process/unix_socket.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr std::uint64_t key_of_signals = 0, key_of_listener = 1, key_of_fenced = 2, first_peer = 3,
                        first_adopted = std::uint64_t{1} << 63;
constexpr std::size_t most_unsent = 4 * longest_frame;

agent_state::time now() {
  return std::chrono::steady_clock::now();
}

/// Leaves out ignored signals: a blocked signal would be delivered even when it is ignored.
descriptor signals_as_events() {
  sigset_t wanted;
  ::sigemptyset(&wanted);
  ::sigaddset(&wanted, SIGCHLD);
  for (const int number : {SIGTERM, SIGINT, SIGHUP})
    if (struct sigaction now = {};
        ::sigaction(number, nullptr, &now) != 0 || now.sa_handler != SIG_IGN)
      ::sigaddset(&wanted, number);
  ::sigprocmask(SIG_BLOCK, &wanted, nullptr);
  return descriptor(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
}

}  // namespace

agent_loop::agent_loop(const agent_settings& settings,
                       descriptor listening,
                       descriptor connection,
                       bool obeys_signals,
                       promise_shown show)
    : state_(settings, now()),
      obeys_signals_(obeys_signals),
      show_promise_(std::move(show)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      signals_(signals_as_events()),
      listening_(std::move(listening)),
      next_peer_(first_peer),
      next_adopted_(first_adopted) {
  if (!epoll_ || !signals_)
    throw io_error("cannot watch for events: {}", system_message(errno));
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
    throw io_error("cannot become a subreaper: {}", system_message(errno));
  watch(signals_.number(), key_of_signals, EPOLLIN, true);
  watch(listening_.number(), key_of_listener, EPOLLIN, true);
  if (connection) {
    make_non_blocking(connection);
    join(std::move(connection));
  }
}

void agent_loop::watch(int descriptor, std::uint64_t key, std::uint32_t events, bool anew) const {
  epoll_event wanted = {};
  wanted.events = events;
  wanted.data.u64 = key;
  if (::epoll_ctl(epoll_.number(), anew ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, descriptor, &wanted) != 0)
    throw io_error("cannot watch descriptor {}: {}", descriptor, system_message(errno));
}

void agent_loop::join(descriptor connection) {
  const auto who = peer_id(next_peer_++);
  watch(connection.number(), std::uint64_t(who), EPOLLIN, true);
  peers_.emplace(who, peer{std::move(connection), {}, {}});
  follow(state_.joined(who));
}

void agent_loop::run() {
  while (!left_) {
    wait_and_take();
    follow(state_.time_is(now()));
    // Killed processes end a little later; SIGCHLD wakes the loop again.
    if (state_.is_ending() && nobody_runs())
      follow(state_.nobody_runs());
  }
}

bool agent_loop::nobody_runs() const {
  if (!adopted_.empty())
    return false;
  const auto spared = children_.find(state_.spared());
  if (spared == children_.end())
    return ::waitid(P_ALL, 0, nullptr, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD;
  const auto all = children_of(::getpid());
  return all.size() == 1 && all[0].id == spared->second.id();
}

void agent_loop::wait_and_take() {
  int patience = -1;
  if (const auto until = state_.deadline()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until - now());
    patience = int(std::clamp<std::int64_t>(left.count(), 0, 60'000));
  }
  std::array<epoll_event, 32> events = {};
  const int count = ::epoll_wait(epoll_.number(), events.data(), int(events.size()), patience);
  for (int i = 0; i < count; ++i)
    take(events[std::size_t(i)].data.u64, events[std::size_t(i)].events);
}

void agent_loop::take(std::uint64_t key, std::uint32_t events) {
  if (key == key_of_signals)
    return read_signals();
  if (key == key_of_listener)
    return accept_all();
  if (key >= first_adopted)
    return end_adopted(key);
  if (key == key_of_fenced) {
    fenced_.reset();
    return follow(state_.fenced());
  }
  if ((events & EPOLLOUT) != 0)
    if (const auto found = peers_.find(peer_id(key)); found != peers_.end())
      write_to(found);
  if ((events & ~std::uint32_t(EPOLLOUT)) != 0)
    if (const auto found = peers_.find(peer_id(key)); found != peers_.end())
      read_from(found);
}

void agent_loop::accept_all() {
  for (;;) {
    std::string refused;
    auto connection = accept_own_user(listening_, refused);
    if (!refused.empty())
      log_warning("{}", refused);
    else if (!connection)
      return;
    else
      join(std::move(connection));
  }
}

void agent_loop::read_signals() {
  signalfd_siginfo what = {};
  bool child = false;
  while (::read(signals_.number(), &what, sizeof what) == ssize_t(sizeof what)) {
    if (what.ssi_signo == SIGCHLD)
      child = true;
    else if (obeys_signals_)
      follow(state_.told_to_end("it got " + signal_name(int(what.ssi_signo))));
  }
  if (child)
    reap();
}

void agent_loop::reap() {
  bool sweep = false;
  for (;;) {
    siginfo_t x = {};
    if (::waitid(P_ALL, 0, &x, WEXITED | WNOHANG | WNOWAIT) != 0 || x.si_pid == 0)
      break;
    const auto found = std::find_if(children_.begin(), children_.end(), [&](const auto& one) {
      return one.second.id().pid == x.si_pid;
    });
    if (found == children_.end()) {  // an orphan that was reparented to this process
      ::waitpid(x.si_pid, nullptr, 0);
      sweep |= killed_orphans_.erase(x.si_pid)
               > 0;  // its children are reparented to this process now
      continue;
    }
    sweep = true;
    const auto how = found->second.wait();
    const auto name = found->first;
    children_.erase(found);
    follow(state_.died(name, how, now()));
  }
  if (sweep)
    kill_orphans();
}

void agent_loop::end_adopted(std::uint64_t key) {
  const auto found = std::find_if(
      adopted_.begin(), adopted_.end(), [&](const auto& one) { return one.second.key == key; });
  if (found == adopted_.end())
    return;
  kill_group(found->second.id);
  const auto name = found->first;
  adopted_.erase(found);
  follow(state_.died(name, {.exit_code = {}, .unseen = true}, now()));
  kill_orphans();
}

void agent_loop::kill_orphans() {
  for (const auto& one : children_of(::getpid()))
    if (one.state != 'Z' && !is_of_a_name(one.id.pid)) {
      killed_orphans_.insert(one.id.pid);
      ::kill(one.id.pid, SIGKILL);  // a child's pid is its own until we wait for it
    }
}

bool agent_loop::is_of_a_name(int pid) const {
  return std::any_of(children_.begin(), children_.end(), [&](const auto& one) {
    return one.second.id().pid == pid;
  });
}

void agent_loop::read_from(peers::iterator x) {
  const auto who = x->first;
  std::array<char, 65536> bytes;
  const auto size = ::recv(x->second.connection.number(), bytes.data(), bytes.size(), 0);
  if (size < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (size <= 0) {
    const bool amid = x->second.received.is_amid();
    if (amid)
      follow(state_.misbehaved(who, "a connection ended in the middle of a message"));
    return drop(who);
  }
  try {
    x->second.received.feed({bytes.data(), std::size_t(size)});
    // A peer that is dropped meanwhile is no longer in the map.
    for (auto here = x; here != peers_.end(); here = peers_.find(who)) {
      const auto text = here->second.received.next();
      if (!text)
        return;
      follow(state_.asked(who, read_request(*text)));
    }
  } catch (const input_error& failure) {
    follow(state_.misbehaved(who, failure.what()));
  }
}

void agent_loop::write_to(peers::iterator x) {
  auto& text = x->second.to_send;
  const auto sent = ::send(
      x->second.connection.number(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0)
    text.erase(0, std::size_t(sent));
  watch(x->second.connection.number(),
        std::uint64_t(x->first),
        text.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT,
        false);
}

void agent_loop::drop(peer_id who) {
  if (peers_.erase(who) > 0)
    follow(state_.left(who, now()));
}

/// Carries out actions in the order of decision; actions that follow from an action are queued.
void agent_loop::follow(agent_actions actions) {
  waiting_.insert(waiting_.end(), actions.begin(), actions.end());
  if (std::exchange(following_, true))
    return;
  while (!waiting_.empty()) {
    const auto next = std::move(waiting_.front());
    waiting_.pop_front();
    std::visit([this](const auto& x) { carry_out(x); }, next);
  }
  following_ = false;
}

void agent_loop::carry_out(const agent_action::answer& x) {
  const auto found = peers_.find(x.to);
  if (found == peers_.end())
    return;
  found->second.to_send += frame_of(text_of(x.what));
  write_to(found);
  if (const auto again = peers_.find(x.to);
      again != peers_.end() && again->second.to_send.size() > most_unsent)
    follow(state_.misbehaved(x.to, "a connection does not read its messages"));
}

void agent_loop::carry_out(const agent_action::hang_up& x) {
  drop(x.whom);
}

void agent_loop::carry_out(const agent_action::start& x) {
  try {
    child_process child(
        {.command = x.what.command, .environment = x.what.environment, .output = x.what.output});
    const auto id = child.id();
    children_.emplace(x.what.name, std::move(child));
    follow(state_.started(x, id));
  } catch (const io_error& failure) {
    follow(state_.not_started(x, failure.what()));
  }
}

void agent_loop::carry_out(const agent_action::adopt& x) {
  try {
    auto it = running_process::find(x.what.process);
    if (!it)
      return follow(state_.not_adopted(
          x, fmt::format("cannot adopt process {}: it has ended", x.what.process.pid)));
    const auto key = next_adopted_++;
    watch(it->pidfd(), key, EPOLLIN, true);
    adopted_.emplace(x.what.name, adopted{x.what.process, *std::move(it), key});
    follow(state_.adopted(x));
  } catch (const io_error& failure) {
    follow(state_.not_adopted(x, failure.what()));
  }
}

// A child that has ended and was not waited for accepts a signal without effect. The sender would
// then take the reported end for its own kill.
void agent_loop::carry_out(const agent_action::signal& x) {
  try {
    const auto child = children_.find(x.what.name);
    const auto other = adopted_.find(x.what.name);
    ensure(child != children_.end() || other != adopted_.end(),
           "AGENT-1: a process that was not reported dead is known");
    const bool ours = child != children_.end();
    pollfd ended{ours ? child->second.pidfd() : other->second.it.pidfd(), POLLIN, 0};
    if (::poll(&ended, 1, 0) == 1)
      return follow(state_.not_signalled(x, "it has just ended"));
    if (ours)
      child->second.signal(x.what.signal);
    else
      other->second.it.signal(x.what.signal);
    follow(state_.signalled(x));
  } catch (const io_error& failure) {
    follow(state_.not_signalled(x, failure.what()));
  }
}

void agent_loop::carry_out(const agent_action::fence& x) {
  try {
    // Also a zombie: other threads than its first may still be ending.
    fenced_ = running_process::find_also_ended(x.process);
    if (!fenced_)
      return follow(state_.fenced());
    fenced_->signal(SIGKILL);
    watch(fenced_->pidfd(), key_of_fenced, EPOLLIN, true);
  } catch (const io_error& failure) {
    fenced_.reset();
    follow(state_.not_fenced(failure.what(), now()));
  }
}

void agent_loop::carry_out(const agent_action::promise& x) const {
  try {
    show_promise_(x.given);
  } catch (const error& failure) {
    log_warning("cannot publish whether the supervisor process will get a successor: {}",
                failure.what());
  }
}

void agent_loop::carry_out(const agent_action::kill_all& x) {
  for (const auto& [name, child] : children_)
    if (name != x.spared)
      child.signal_group(SIGKILL);
  for (const auto& [name, one] : adopted_) {
    one.it.signal(SIGKILL);
    kill_group(one.id);
  }
  kill_orphans();
}

void agent_loop::carry_out(const agent_action::say& x) {
  log_info("{}", x.line);
}

void agent_loop::carry_out(const agent_action::leave&) {
  if (const auto spared = children_.find(state_.spared()); spared != children_.end())
    spared->second.leave();
  left_ = true;
}

}  // namespace troupe::runtime
