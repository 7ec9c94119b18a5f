#include "runtime/transport/ucx/entrance.hpp"

#include "runtime/transport/ucx/address.hpp"
#include "runtime/transport/ucx/silence.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <tuple>
#include <vector>

namespace troupe::runtime::ucx {

namespace {

constexpr std::uint64_t listeners_number = 0;
constexpr auto between_looks = std::chrono::milliseconds(10);

std::string said_by_system(int number) {
  return std::generic_category().message(number);
}

void watch(int epoll, int one, std::uint32_t events, std::uint64_t number) {
  epoll_event what = {};
  what.events = events;
  what.data.u64 = number;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, one, &what) != 0)
    throw std::system_error(errno, std::generic_category(), "a wire cannot watch a connection");
}

descriptor socket_for(const sockaddr_storage& at) {
  return {::socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
          "a wire cannot make a socket"};
}

}  // namespace

entrance::entrance(host& of, const wire_settings& settings)
    : host_(of),
      patience_(settings.handshake_within),
      silent_for_(settings.silent_for),
      most_unknown_(std::max<std::size_t>(settings.most_unknown, 1)),
      report_refusal_(settings.report_refusal),
      terms_{settings.secret,
             settings.run_id,
             settings.build,
             settings.protocol,
             settings.process,
             {}},
      epoll_(::epoll_create1(EPOLL_CLOEXEC), "a wire cannot make an epoll") {
  for (const auto& name : {terms_.run_id, terms_.build})
    if (name.size() > longest_name)
      throw std::runtime_error("a wire's run and build have names of at most "
                               + std::to_string(longest_name) + " bytes, not of "
                               + std::to_string(name.size()));
  listen(settings);
}

void entrance::listen(const wire_settings& settings) {
  auto at = address_of(settings.listen_address, settings.port);
  if (is_unspecified(at.at))
    throw std::runtime_error("a wire cannot listen on '" + settings.listen_address
                             + "': other processes cannot call that address; give the address at which they reach this machine");
  if (settings.without_secret && !is_loopback(at.at))
    throw std::runtime_error("a wire without a secret listens on a loopback address only, not on '"
                             + settings.listen_address + "': give it the run's secret");
  const int last = std::max(settings.port, settings.last_port);
  int failure = 0;
  for (int port = settings.port; port <= last; ++port) {
    at = address_of(settings.listen_address, std::uint16_t(port));
    auto made = socket_for(at.at);
    const int on = 1;
    ::setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(made, reinterpret_cast<const sockaddr*>(&at.at), at.size) == 0
        && ::listen(made, SOMAXCONN) == 0) {
      listener_ = std::move(made);
      break;
    }
    failure = errno;
    if (failure != EADDRINUSE)
      break;
  }
  if (listener_ < 0)
    throw std::runtime_error(
        "a wire cannot listen on " + to_string(at.at)
        + (last > settings.port ? ", nor on a port from " + std::to_string(settings.port) : "")
        + ": " + said_by_system(failure));
  at.size = sizeof at.at;
  if (::getsockname(listener_, reinterpret_cast<sockaddr*>(&at.at), &at.size) != 0)
    throw std::runtime_error("a wire cannot learn where it listens: " + said_by_system(errno));
  terms_.address = to_string(at.at);
}

std::optional<entrance::clock::time_point> entrance::next_end() const {
  std::optional<clock::time_point> out;
  for (const auto& [number, x] : visitors_)
    if (!x.introduced && (!out || x.until < *out))
      out = x.until;
  if (takes_callers_at_ != clock::time_point{} && !listening_ && (!out || takes_callers_at_ < *out))
    out = takes_callers_at_;
  return out;
}

entrance::visitors::iterator entrance::add(descriptor at, handshake talk, std::string where) {
  const auto number = next_++;
  watch(epoll_, at, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, number);
  const auto until = clock::now() + patience_;
  return visitors_
      .emplace(number, visitor{std::move(at), std::move(talk), until, std::move(where), {}})
      .first;
}

void entrance::call(peer_number who, const std::string& address, const std::string& payload) {
  const auto to = address_of(address);
  auto made = socket_for(to.at);
  if (::connect(made, reinterpret_cast<const sockaddr*>(&to.at), to.size) != 0
      && errno != EINPROGRESS)
    throw std::runtime_error("cannot connect: " + said_by_system(errno));
  const auto called = to_string(to.at);
  const auto x
      = add(std::move(made), handshake::calling(terms_, called, random_bytes(), payload), called);
  x->second.number = who;
}

void entrance::forget(peer_number who) {
  std::erase_if(visitors_, [&](const auto& x) { return x.second.number == who; });
}

bool entrance::progress(bool accepts) {
  if (accepts && !listening_ && clock::now() >= takes_callers_at_) {
    watch(epoll_, listener_, EPOLLIN, listeners_number);
    listening_ = true;
  }
  std::array<epoll_event, 16> events;
  const int n = ::epoll_wait(epoll_, events.data(), int(events.size()), 0);
  for (int i = 0; i < n; ++i) {
    const auto number = events[std::size_t(i)].data.u64;
    if (number == listeners_number)
      accept();
    else if (const auto x = visitors_.find(number); x != visitors_.end())
      attend(x);
  }
  expire();
  return n > 0;
}

// One caller per round, so that the wire's other work continues.
void entrance::accept() {
  sockaddr_storage from = {};
  socklen_t size = sizeof from;
  const int made = ::accept4(
      listener_, reinterpret_cast<sockaddr*>(&from), &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (made < 0) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      warn_once("no descriptor", "cannot accept callers at the moment: " + said_by_system(errno));
      ::epoll_ctl(epoll_, EPOLL_CTL_DEL, listener_, nullptr);
      listening_ = false;
      takes_callers_at_ = clock::now() + between_looks;
    }
    return;
  }
  descriptor at(made, "");
  make_room();
  const auto x = add(std::move(at), handshake::answering(terms_, random_bytes()), to_string(from));
  x->second.is_caller = true;
}

void entrance::make_room() {
  const auto is_unknown
      = [](const auto& x) { return x.second.is_caller && x.second.number == peer_number{}; };
  if (std::size_t(std::count_if(visitors_.begin(), visitors_.end(), is_unknown)) < most_unknown_)
    return;
  const auto oldest = std::find_if(visitors_.begin(), visitors_.end(), is_unknown);
  end(oldest,
      handshake_fault::crowded,
      std::to_string(most_unknown_)
          + " callers have not authenticated yet; the oldest one is disconnected");
}

void entrance::attend(visitors::iterator x) {
  int failure = 0;
  socklen_t size = sizeof failure;
  if (::getsockopt(x->second.at, SOL_SOCKET, SO_ERROR, &failure, &size) == 0 && failure != 0)
    return end(x, handshake_fault::left, said_by_system(failure));
  if (!flush(x->second))
    return;  // not connected yet
  read(x);
}

void entrance::read(visitors::iterator at) {
  auto& x = at->second;
  std::array<char, 4096> bytes;
  for (;;) {
    const auto n = ::recv(x.at, bytes.data(), bytes.size(), 0);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN))
      return;
    if (n < 0)
      return end(at, handshake_fault::left, said_by_system(errno));
    if (n == 0)
      return end(at,
                 handshake_fault::left,
                 x.introduced ? "its process has ended or closed it"
                              : "it closed the connection before it had authenticated");
    if (x.introduced)
      return end(at, handshake_fault::out_of_turn, "it sent data after the handshake");
    x.talk.feed({bytes.data(), std::size_t(n)});
    advance(x);
    if (x.talk.has_failed())
      return end(at, x.talk.fault(), x.talk.why());
  }
}

// This side's UCX is ready before the other side learns its address.
void entrance::advance(visitor& x) {
  if (x.talk.awaits_payload()) {
    try {
      std::string payload;
      std::tie(x.number, payload) = host_.admit();
      x.talk.welcome(payload);
    } catch (const std::runtime_error& failure) {
      x.talk.fail(handshake_fault::no_room,
                  std::string("cannot serve the caller: ") + failure.what());
    }
  }
  if (x.talk.is_done() && !x.introduced) {
    x.introduced = true;
    end_when_silent(x.at, silent_for_);
    host_.introduced(x.number, x.talk);
  }
  flush(x);
}

/// Returns false when data remains unsent.
bool entrance::flush(visitor& x) {
  x.unsent += x.talk.take_output();
  while (!x.unsent.empty()) {
    const auto n = ::send(x.at, x.unsent.data(), x.unsent.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return errno != EAGAIN && errno != EWOULDBLOCK
             && errno != ENOTCONN;  // the next read reports the reason
    x.unsent.erase(0, std::size_t(n));
  }
  return true;
}

void entrance::end(visitors::iterator at, handshake_fault fault, std::string why) {
  auto& x = at->second;
  if (!x.introduced && x.is_caller) {
    x.talk.fail(fault, why);  // tells the caller, if it still reads
    flush(x);
    ::shutdown(x.at, SHUT_WR);
    warn_once(std::to_string(int(fault)), "a caller from " + x.where + " was refused: " + why);
  }
  const auto number = x.number;
  const bool was_called = !x.is_caller && !x.introduced;
  visitors_.erase(at);
  if (number != peer_number{})
    host_.left(number, was_called ? "the handshake failed: " + why : why);
}

void entrance::expire() {
  const auto now = clock::now();
  if (now < looks_for_ends_at_)
    return;
  looks_for_ends_at_ = now + between_looks;
  std::vector<std::uint64_t> late;
  for (const auto& [number, x] : visitors_)
    if (!x.introduced && now >= x.until)
      late.push_back(number);
  for (const auto number : late)
    end(visitors_.find(number),
        handshake_fault::silent,
        "it did not authenticate within " + std::to_string(patience_.count()) + " ms");
}

void entrance::warn_once(const std::string& kind, const std::string& what) {
  if (warned_.insert(kind).second && report_refusal_)
    report_refusal_("the wire at " + terms_.address + ": " + what
                    + ". Logged once; further refusals of this kind are not logged");
}

}  // namespace troupe::runtime::ucx
