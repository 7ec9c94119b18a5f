#include "actors/host/neighbours.hpp"

#include "runtime/core/error.hpp"

#include <charconv>
#include <fmt/format.h>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

namespace troupe::actors {

namespace {
constexpr std::string_view connection_prefix = "connection:";
constexpr std::string_view control_prefix = "control:";

std::optional<messages::process_name> process_after(std::string_view prefix,
                                                    const std::string& name) {
  if (!name.starts_with(prefix))
    return std::nullopt;
  messages::process_name out;
  const auto* const end = name.data() + name.size();
  const auto [dot, wrong] = std::from_chars(name.data() + prefix.size(), end, out.process);
  if (wrong != std::errc() || dot == end || *dot != '.')
    return std::nullopt;
  const auto [last, wrong_too] = std::from_chars(dot + 1, end, out.incarnation);
  return wrong_too == std::errc() && last == end ? std::optional(out) : std::nullopt;
}

}  // namespace

std::string name_of_connection(const messages::process_name& to) {
  return fmt::format("{}{}.{}", connection_prefix, to.process, to.incarnation);
}

std::optional<messages::process_name> connection_named(const std::string& name) {
  return process_after(connection_prefix, name);
}

std::string name_of_control_connection(const messages::process_name& to) {
  return fmt::format("{}{}.{}", control_prefix, to.process, to.incarnation);
}

std::optional<messages::process_name> control_connection_named(const std::string& name) {
  return process_after(control_prefix, name);
}

void broken_connections::tell_to(hearer x) {
  std::optional<broken_connection> untold;
  {
    const std::lock_guard lock(mutex_);
    hearer_ = x;
    if (x)
      untold = std::exchange(untold_, std::nullopt);
  }
  if (untold)
    x(*untold);
}

void broken_connections::tell(const broken_connection& x) {
  hearer to;
  {
    const std::lock_guard lock(mutex_);
    to = hearer_;
    if (!to)
      untold_ = x;
  }
  if (to)
    to(x);
}

void neighbours::when_broken(broken_connections::hearer x) {
  if (broken_)
    broken_->tell_to(std::move(x));
}

void neighbours::control_broke(const messages::process_name& with, const std::string& why) {
  if (broken_)
    broken_->tell({.to = with, .why = why, .is_control = true});
}

neighbours::neighbours(messages::process_name self,
                       std::shared_ptr<runtime::wire_transport> transport,
                       std::shared_ptr<runtime::windows> windows,
                       std::shared_ptr<broken_connections> broken)
    : self_(self),
      transport_(std::move(transport)),
      windows_(std::move(windows)),
      broken_(std::move(broken)) {}

messages::process_address neighbours::address() const {
  return {.who = self_,
          .transport = transport_ ? transport_->address().where : "",
          .windows = windows_ ? windows_->address() : ""};
}

void neighbours::introduce(const messages::process_address& x) {
  {
    const std::lock_guard lock(mutex_);
    auto& known = others_[x.who.process];
    if (known.who.incarnation > x.who.incarnation)
      return;
    known = x;
  }
  if (transport_ && !x.transport.empty())
    transport_->introduce({x.who.key(), x.transport});
}

void neighbours::use_only(const std::vector<messages::process_address>& all) {
  std::set<int> places;
  for (const auto& x : all)
    places.insert(x.who.process);
  std::vector<std::uint64_t> parted;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(others_, [&](const auto& one) {
      const bool stays = places.contains(one.first);
      if (!stays)
        parted.push_back(one.second.who.key());
      return !stays;
    });
  }
  for (const auto key : parted)
    if (transport_)
      transport_->forget(key, "it is no neighbour of this process any more");
  for (const auto& x : all)
    introduce(x);
}

bool neighbours::knows(int process) const {
  const std::lock_guard lock(mutex_);
  return process == self_.process || others_.contains(process);
}

void neighbours::forget(const messages::process_name& who, const std::string& why) {
  if (transport_)
    transport_->forget(who.key(), why);
  if (windows_)
    windows_->release(who.key(), why);
  loss_hearer tell;
  {
    const std::lock_guard lock(mutex_);
    const auto known = others_.find(who.process);
    if (known == others_.end() || known->second.who == who)  // a later incarnation lives
      tell = forgotten_;
  }
  if (tell)
    tell(who.process, why);
}

void neighbours::when_forgotten(loss_hearer x) {
  const std::lock_guard lock(mutex_);
  forgotten_ = std::move(x);
}

void neighbours::renew_connections(int process) {
  static const std::string why
      = "a connection with its process broke; all its connections are made anew";
  std::uint64_t key = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = others_.find(process);
    if (found == others_.end())
      return;
    key = found->second.who.key();
  }
  if (transport_)
    transport_->renew_connections(key, why);
  if (windows_)
    windows_->renew_connections(key, why);
}

runtime::memory_source neighbours::shared_memory() const {
  return windows_ ? windows_->source() : runtime::memory_source();
}

const runtime::window_counters* neighbours::taken() const {
  return windows_ ? &windows_->counters() : nullptr;
}

std::unique_ptr<runtime::communicator> neighbours::join(runtime::window_group_description what,
                                                        const std::vector<int>& processes,
                                                        int rank,
                                                        const runtime::cancel_token& until) {
  if (!windows_)
    throw runtime::broken_promise("PROCESS-1: a process without windows hosts no rank");
  {
    const std::lock_guard lock(mutex_);
    for (const int p : processes) {
      const auto found = others_.find(p);
      if (p == self_.process)
        what.homes.push_back(windows_->address());
      else if (found != others_.end())
        what.homes.push_back(found->second.windows);
      else
        throw runtime::io_error(
            "cannot join the group '{}': process {} is not known here", what.name, p);
    }
  }
  return windows_->join(what, rank, until);
}

}  // namespace troupe::actors
