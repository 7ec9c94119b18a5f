#include "runtime/transport/ucx/wire.hpp"

#include "kernels/backend/plugin.hpp"
#include "runtime/transport/ucx/address.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace troupe::runtime::ucx {

namespace {
// A forced close needs no answer of the other end; this is thousands of times the usual duration.
constexpr auto closing_takes_at_most = std::chrono::seconds(1);
constexpr int a_millisecond = 1;
}  // namespace

wire_of_ucx::wire_of_ucx(wire_owner& owner, const wire_settings& settings)
    : owner_(owner),
      settings_(settings),
      posted_event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "a wire cannot make an eventfd"),
      epoll_(::epoll_create1(EPOLL_CLOEXEC), "a wire cannot make an epoll") {
  const auto ready = std::make_shared<std::promise<void>>();
  auto is_ready = ready->get_future();
  thread_ = settings_.start_thread("ucx wire", [this, ready] { serve(*ready); });
  try {
    is_ready.get();
  } catch (...) {
    thread_.join();
    throw;
  }
}

wire_of_ucx::~wire_of_ucx() {
  stop();
}

void wire_of_ucx::stop() {
  if (!thread_.joinable())
    return;
  post([this] { over_ = true; });
  thread_.join();
}

void wire_of_ucx::start() {
  post([this] { started_ = true; });
}

peer_number wire_of_ucx::next_number() {
  const std::lock_guard lock(mutex_);
  return peer_number(next_++);
}

peer_number wire_of_ucx::connect(const std::string& address) {
  const auto number = next_number();
  post([this, number, address] {
    if (over_)
      return;
    try {
      entrance_->call(number, address, add(number, true)->second->worker_address());
    } catch (const std::runtime_error& failure) {
      if (const auto at = peers_.find(number); at != peers_.end())
        at->second->break_off(failure.what());
      else
        owner_.lost(number, failure.what());
    }
  });
  return number;
}

// The owner learns of a caller with its first message; a caller that leaves earlier is not
// reported.
std::pair<peer_number, std::string> wire_of_ucx::admit() {
  const auto number = next_number();
  auto& x = *add(number, false)->second;
  x.expect();
  return {number, x.worker_address()};
}

void wire_of_ucx::introduced(peer_number who, const handshake& talk) {
  const auto at = peers_.find(who);
  if (at == peers_.end())
    return;
  watch(at->second->wakeup());
  at->second->connect(talk);
}

void wire_of_ucx::left(peer_number who, const std::string& why) {
  const auto at = peers_.find(who);
  if (at == peers_.end())
    return;
  at->second->progress();  // messages that it sent before it left
  at->second->break_off(why);
}

void wire_of_ucx::send(peer_number to, outgoing what) {
  post([this, to, what = std::make_shared<outgoing>(std::move(what))] {
    if (const auto at = peers_.find(to); at != peers_.end())
      at->second->send(std::move(*what));
    else if (what->done)
      what->done(false);
  });
}

void wire_of_ucx::close(peer_number who, const std::string& why) {
  post([this, who, why] {
    if (const auto at = peers_.find(who); at != peers_.end())
      at->second->break_off(why);
  });
}

void wire_of_ucx::post(work what) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(what));
    wake = std::exchange(asleep_, false);
  }
  const std::uint64_t one = 1;
  if (wake)
    while (::write(posted_event_, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

void wire_of_ucx::serve(std::promise<void>& ready) {
  sigset_t all;  // signals go to other threads, also from threads that UCX creates here
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  bool listening = false;
  try {
    listen();
    listening = true;
    ready.set_value();
  } catch (...) {
    ready.set_exception(std::current_exception());
  }
  while (listening && !over_)
    work_on();
  for (auto& [number, one] : peers_)
    one->break_off("the wire was stopped");
  bury();
  do_posted();  // their senders learn that the peers are gone
  for (; !dying_.empty(); bury())
    if (!progress())
      std::this_thread::sleep_for(settings_.spin);
  entrance_.reset();
  context_.reset();
}

void wire_of_ucx::listen() {
  entrance_ = std::make_unique<entrance>(static_cast<entrance::host&>(*this), settings_);
  address_ = entrance_->address();
  const auto interface = interface_of(address_of(address_).at);
  await_link(interface);
  context_ = make_context(interface);
  takes_device_memory_ = settings_.device_memory && ucx::takes_device_memory(context_);
  watch(posted_event_);
  watch(entrance_->wakeup());
}

void wire_of_ucx::work_on() {
  bool busy = do_posted();
  busy |= progress();
  busy |= entrance_->progress(started_);
  bury();
  const auto now = clock::now();
  if (busy)
    busy_at_ = now;
  else if (now - busy_at_ >= settings_.spin)
    sleep();
}

bool wire_of_ucx::do_posted() {
  std::vector<work> all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(posted_);
  }
  for (auto& one : all)
    one();
  return !all.empty();
}

bool wire_of_ucx::progress() {
  bool busy = false;
  for (auto& [number, one] : peers_) {
    busy = one->progress() || busy;
    if (one->forged() > 0)
      entrance_->warn_once("forged",
                           "dropped messages that came to a port of UCX without a handshake");
  }
  for (auto& one : dying_)
    busy = one.who->progress() || busy;
  return busy;
}

std::map<peer_number, std::unique_ptr<peer>>::iterator wire_of_ucx::add(peer_number number,
                                                                        bool was_called) {
  auto made = std::make_unique<peer>(
      context_, number, owner_, takes_device_memory_, was_called, settings_.silent_for);
  return peers_.emplace(number, std::move(made)).first;
}

// Reports the loss first; other peers' messages do not wait for the close.
void wire_of_ucx::bury() {
  for (auto at = peers_.begin(); at != peers_.end();) {
    if (at->second->greeted_until())
      at->second->expire(clock::now());
    if (at->second->broken().empty()) {
      ++at;
      continue;
    }
    const auto& x = *at->second;
    entrance_->forget(x.number());
    ::epoll_ctl(epoll_, EPOLL_CTL_DEL, x.wakeup(), nullptr);
    dying_.push_back({std::move(at->second), clock::now() + closing_takes_at_most});
    at = peers_.erase(at);
    if (!over_ && x.is_known())
      owner_.lost(x.number(), x.broken());
  }
  dying_.remove_if([](auto& x) { return x.who->close() || clock::now() >= x.until; });
}

bool wire_of_ucx::arm() {
  bool armed = true;
  for (auto& [number, one] : peers_)
    armed = armed && one->arm();
  return armed;
}

/// Milliseconds; -1: until an event.
int wire_of_ucx::longest_sleep() const {
  if (!dying_.empty())
    return a_millisecond;
  auto end = entrance_->next_end();
  for (const auto& [number, one] : peers_)
    if (const auto until = one->greeted_until(); until && (!end || *until < *end))
      end = until;
  if (!end)
    return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*end - clock::now()).count();
  return int(std::clamp<std::int64_t>(left, a_millisecond, 1000 * a_millisecond));
}

// The next thread that posts writes to the event.
void wire_of_ucx::sleep() {
  {
    const std::lock_guard lock(mutex_);
    if (!posted_.empty())
      return;
    asleep_ = true;
  }
  if (arm()) {
    epoll_event what = {};
    if (::epoll_wait(epoll_, &what, 1, longest_sleep()) < 0 && errno != EINTR)
      std::this_thread::sleep_for(std::chrono::milliseconds(a_millisecond));
  }
  {
    const std::lock_guard lock(mutex_);
    asleep_ = false;
  }
  std::uint64_t count = 0;
  while (::read(posted_event_, &count, sizeof count) < 0 && errno == EINTR) {
  }
  busy_at_ = clock::now();
}

void wire_of_ucx::watch(int one) {
  epoll_event what = {};
  what.events = EPOLLIN;
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, one, &what) != 0)  // removed with its worker
    throw std::system_error(errno, std::generic_category(), "a wire cannot watch a connection");
}

}  // namespace troupe::runtime::ucx

TROUPE_PLUGIN_FUNCTION troupe::runtime::wire* troupe_ucx_wire(
    troupe::runtime::wire_owner& owner, const troupe::runtime::wire_settings& settings) {
  return new troupe::runtime::ucx::wire_of_ucx(owner, settings);
}

TROUPE_PLUGIN_FUNCTION const char* troupe_plugin_build() {
  return troupe::kernels::build_of_plugins();
}

TROUPE_PLUGIN_FUNCTION const char* troupe_plugin_library() {
  static const std::string text = std::string("UCX ") + ucp_get_version_string();
  return text.c_str();
}
