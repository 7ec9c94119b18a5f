#include "runtime/transport/ucx/wire.hpp"

#include "kernels/backend/plugin.hpp"

#include <csignal>
#include <cstring>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

namespace troupe::runtime::ucx {

using clock = std::chrono::steady_clock;

wire_of_ucx::wire_of_ucx(wire_owner& owner, const wire_settings& how) : owner_(owner), how_(how) {
  posted_event_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  std::promise<void> ready;
  auto is_ready = ready.get_future();
  thread_ = std::thread([this, ready = std::move(ready)]() mutable { serve(std::move(ready)); });
  try {
    is_ready.get();
  } catch (...) {
    thread_.join();
    ::close(posted_event_);
    ::close(epoll_);
    throw;
  }
}

wire_of_ucx::~wire_of_ucx() {
  post([this] { over_ = true; });
  thread_.join();
  ::close(posted_event_);
  ::close(epoll_);
}

void wire_of_ucx::start() {
  post([this] { started_ = true; });
}

peer_number wire_of_ucx::connect(const std::string& address) {
  peer_number number;
  {
    const std::lock_guard lock(mutex_);
    number = peer_number(next_++);
  }
  post([this, number, address] {
    try {
      add(number)->second->call(address);
    } catch (const std::runtime_error& failure) {
      owner_.lost(number, failure.what());
    }
  });
  return number;
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

void wire_of_ucx::serve(std::promise<void> ready) {
  ::pthread_setname_np(::pthread_self(), "ucx wire");
  sigset_t all;  // signals are for others, and so for the threads that UCX makes here
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
  peers_.clear();
  do_posted();  // they are told that their peers are gone
  for (auto* const caller : callers_)
    ucp_listener_reject(listener_.get(), caller);
  listener_.reset();
  worker_.reset();
  context_.reset();
}

void wire_of_ucx::listen() {
  const auto at = address_of(how_.host, how_.port);
  context_ = make_context(is_loopback(at.at));
  takes_device_memory_ = ucx::takes_device_memory(context_);
  worker_ = make_worker(context_);
  ucp_listener_params_t how = {};
  how.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  how.sockaddr = {reinterpret_cast<const sockaddr*>(&at.at), at.size};
  how.conn_handler = {&wire_of_ucx::called, this};
  ucp_listener_h made = nullptr;
  require(ucp_listener_create(worker_.get(), &how, &made), "listen on " + to_string(at.at));
  listener_.reset(made);
  ucp_listener_attr_t facts = {};
  facts.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  require(ucp_listener_query(made, &facts), "say where it listens");
  address_ = to_string(facts.sockaddr);
  watch(posted_event_);
  watch(wakeup_of(worker_));
}

void wire_of_ucx::called(ucp_conn_request_h who, void* self) {
  static_cast<wire_of_ucx*>(self)->callers_.push_back(who);
}

void wire_of_ucx::work_on() {
  const bool busy = do_posted() | progress() | answer_callers();
  bury();
  const auto now = clock::now();
  if (busy)
    busy_at_ = now;
  else if (now - busy_at_ >= how_.spin)
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

bool wire_of_ucx::answer_callers() {
  if (!started_ || callers_.empty())
    return false;
  for (auto* const who : std::exchange(callers_, {})) {
    peer_number number;
    {
      const std::lock_guard lock(mutex_);
      number = peer_number(next_++);
    }
    try {
      add(number)->second->answer(who);
    } catch (const std::runtime_error&) {  // the caller is told
      ucp_listener_reject(listener_.get(), who);
    }
  }
  return true;
}

bool wire_of_ucx::progress() {
  bool busy = ucp_worker_progress(worker_.get()) != 0;
  for (auto& [number, one] : peers_)
    busy = one->progress() || busy;
  return busy;
}

std::map<peer_number, std::unique_ptr<peer>>::iterator wire_of_ucx::add(peer_number number) {
  const auto at = peers_.emplace(number, std::make_unique<peer>(context_, number, owner_)).first;
  watch(at->second->wakeup());
  return at;
}

void wire_of_ucx::bury() {
  for (auto at = peers_.begin(); at != peers_.end();) {
    if (at->second->broken().empty()) {
      ++at;
      continue;
    }
    const auto [number, why] = std::pair(at->first, at->second->broken());
    at = peers_.erase(at);
    owner_.lost(number, why);
  }
}

// Whoever posts from here on writes to the event, unless somebody has.
void wire_of_ucx::sleep() {
  {
    const std::lock_guard lock(mutex_);
    if (!posted_.empty())
      return;
    asleep_ = true;
  }
  bool armed = ucp_worker_arm(worker_.get()) == UCS_OK;
  for (auto& [number, one] : peers_)
    armed = armed && one->arm();
  epoll_event what = {};
  if (armed)
    ::epoll_wait(epoll_, &what, 1, -1);
  {
    const std::lock_guard lock(mutex_);
    asleep_ = false;
  }
  std::uint64_t count = 0;
  while (::read(posted_event_, &count, sizeof count) < 0 && errno == EINTR) {
  }
  busy_at_ = clock::now();
}

void wire_of_ucx::watch(int descriptor) {
  epoll_event what = {};
  what.events = EPOLLIN;
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &what);  // it leaves with its worker
}

}  // namespace troupe::runtime::ucx

TROUPE_PLUGIN_FUNCTION troupe::runtime::wire* troupe_ucx_wire(
    troupe::runtime::wire_owner& owner, const troupe::runtime::wire_settings& how) {
  return new troupe::runtime::ucx::wire_of_ucx(owner, how);
}

TROUPE_PLUGIN_FUNCTION const char* troupe_plugin_build() {
  return troupe::kernels::build_of_plugins();
}

TROUPE_PLUGIN_FUNCTION const char* troupe_plugin_library() {
  static const std::string text = std::string("UCX ") + ucp_get_version_string();
  return text.c_str();
}
