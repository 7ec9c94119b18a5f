#include "runtime/collective/window/windows.hpp"

#include "runtime/collective/window/communicator.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/process_key.hpp"
#include "runtime/transport/process_memory.hpp"

#include <algorithm>
#include <unistd.h>

namespace troupe::runtime {

namespace {

void require_usable(const window_tuning& x) {
  const auto most = window_exchange::most_bytes_of_piece;
  if (x.piece < 64 || x.piece > most || x.cache < 1 || x.stretch < 1 || x.ahead < 1
      || x.spin.count() < 0)
    throw input_error(
        "invalid tuning of windows: piece {} bytes, cache {}, stretch {}, ahead {}; a piece has 64 "
        "to {} bytes, and the others must be at least 1",
        x.piece,
        x.cache,
        x.stretch,
        x.ahead,
        most);
}

}  // namespace

windows::windows(const window_settings& settings) : settings_(settings) {
  require_usable(settings.tuning);
  address_.process = settings.process;
  if (settings.shared_memory) {
    let_siblings_read();
    board_ = window_board::make();
    memory_ = std::make_shared<shared_memory>();
    address_.host = memory_host();
    address_.pid = ::getpid();
    address_.board = board_->descriptor();
    address_.nonce = board_->nonce();
    address_.probe = std::uint64_t(reinterpret_cast<std::uintptr_t>(board_->probe()));
  }
  if (settings.make_wire) {
    exchange_ = std::make_unique<window_exchange>(
        settings.process,
        settings.make_wire,
        window_exchange::hooks{
            .group =
                [this](const std::string& key) {
                  const std::lock_guard lock(mutex_);
                  const auto at = groups_.find(key);
                  return at == groups_.end() ? nullptr : at->second;
                },
            .lost
            = [this](std::uint64_t process, const std::string& why) { break_off(process, why); }});
    address_.wire = exchange_->address();
  }
}

windows::~windows() {
  if (exchange_ != nullptr)
    exchange_->stop();
}

std::string windows::address() const {
  return to_text(address_);
}

memory_block windows::allocate(std::size_t bytes) {
  return memory_ != nullptr ? memory_->allocate(bytes) : memory_pool().allocate(bytes);
}

memory_source windows::source() const {
  if (memory_ == nullptr)
    return {};
  return [from = memory_](std::size_t bytes) -> memory_block {
    try {
      return from->allocate(bytes);
    } catch (const io_error& why) {
      log_warning("sums between processes will be slower: {}", why.what());
      return nullptr;
    }
  };
}

std::unique_ptr<communicator> windows::join(const window_group_description& what,
                                            int rank,
                                            const cancel_token& until) {
  return std::make_unique<window_communicator>(group_of(what), rank, until);
}

std::shared_ptr<window_group> windows::group_of(const window_group_description& what) {
  const auto key = key_of(what);
  if (what.homes.empty() || key.size() > window_board::most_name)
    throw input_error(
        "a group between processes needs a rank, and a name of at most {} letters including its "
        "generation: '{}' has {} ranks and {} letters",
        window_board::most_name,
        key,
        what.homes.size(),
        key.size());
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = groups_.find(key); at != groups_.end()) {
      ensure(at->second->description().homes == what.homes
                 && at->second->description().along == what.along,
             "WINDOW-7: all ranks describe a group alike");
      return at->second;
    }
  }
  begin(what.generation);
  auto homes = homes_of(what, key);
  auto made = std::make_shared<window_group>(
      what, std::move(homes), board_, memory_, settings_.tuning, counters_);
  retire(what.generation);
  const std::lock_guard lock(mutex_);
  const auto out = groups_.try_emplace(key, std::move(made)).first->second;
  for (const auto& [process, how] : lost_)
    out->lose(process, how.why);
  return out;
}

std::vector<window_group::home> windows::homes_of(const window_group_description& what,
                                                  const std::string& key) {
  std::map<std::uint64_t, std::vector<int>> ranks;
  std::map<std::uint64_t, window_address> where;
  std::vector<window_group::home> out;
  for (const auto& text : what.homes) {
    const auto home = window_address_of(text);
    ranks[home.process].push_back(int(out.size()));
    if (const auto& first = where.try_emplace(home.process, home).first->second;
        first != home || (home.process == address_.process && home != address_))
      throw input_error(
          "cannot join the group {}: two processes call themselves {}, '{}' and '{}'; give each "
          "process of a run, replacements included, a number of its own",
          what.name,
          name_by_process_key(home.process),
          to_text(first == home ? address_ : first),
          text);
    out.push_back({.process = home.process, .wire = nullptr});
  }
  for (const auto& [process, home] : where) {
    if (process == address_.process)
      continue;
    require_alive(process, what.name);
    std::shared_ptr<window_wire> wire;
    const bool shares = board_ != nullptr && home.host == address_.host;
    const auto peer = shares ? peer_of(home) : nullptr;
    const bool may_read = peer != nullptr && peer->may_read;
    // On one host the other process may be able to read, and then it does not call.
    if (exchange_ != nullptr && !home.wire.empty() && !may_read)
      wire = exchange_->wire_to(home, key, what.generation, !shares && process < address_.process);
    if (peer != nullptr) {
      if (!may_read && wire == nullptr)
        throw io_error(
            "cannot join the group {}: the system denies access to the memory of {} (pid "
            "{}), and there is no wire to it; allow process_vm_readv and pidfd_open (Linux 5.3) "
            "between processes of one user, or give the processes a wire",
            what.name,
            name_by_process_key(process),
            home.pid);
      wire = std::make_shared<shared_wire>(peer, key, ranks[process], std::move(wire));
    }
    if (wire == nullptr)
      throw io_error(
          "cannot join the group {}: {} is on another host, or shares no memory, and there is no "
          "wire to it; give both processes a wire",
          what.name,
          name_by_process_key(process));
    for (const int r : ranks[process])
      out[std::size_t(r)].wire = wire;
  }
  return out;
}

void windows::require_alive(std::uint64_t process, const std::string& group) const {
  const std::lock_guard lock(mutex_);
  if (const auto at = lost_.find(process); at != lost_.end())
    throw peer_lost("cannot join the group {}: {} was lost: {}; its ranks need another process",
                    group,
                    name_by_process_key(process),
                    at->second.why);
}

std::shared_ptr<shared_memory_peer> windows::peer_of(const window_address& where) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = peers_.find(where.process); at != peers_.end())
      return at->second;
  }
  auto made = open_peer(where);
  const std::lock_guard lock(mutex_);
  return peers_.try_emplace(where.process, std::move(made)).first->second;
}

void windows::retire(generation_id before) {
  if (exchange_ != nullptr)
    exchange_->begin_generation(before);
  std::vector<std::shared_ptr<window_group>> gone;
  const std::lock_guard lock(mutex_);
  for (auto at = groups_.begin(); at != groups_.end();) {
    if (at->second->description().generation >= before || at->second.use_count() > 1) {
      ++at;
      continue;
    }
    if (exchange_ != nullptr)
      exchange_->drop(at->first);
    gone.push_back(std::move(at->second));
    at = groups_.erase(at);
  }
}

// LINK-1: a process that was lost only by a broken connection is available again in a new
// generation.
void windows::begin(generation_id x) {
  const std::lock_guard lock(mutex_);
  if (x <= newest_)
    return;
  newest_ = x;
  std::erase_if(lost_, [](const auto& entry) { return entry.second.heals; });
}

void windows::release(std::uint64_t process, const std::string& why) {
  lose(process, {why});
}

void windows::renew_connections(std::uint64_t process, const std::string& why) {
  lose(process, {why, true});
}

void windows::break_off(std::uint64_t process, const std::string& why) {
  generation_id of = {};
  {
    const std::lock_guard lock(mutex_);
    if (lost_.contains(process))
      return;
    of = newest_;
  }
  lose(process, {why, true});
  if (settings_.broke)
    settings_.broke(process, of, why);
}

void windows::lose(std::uint64_t process, const loss& how) {
  {
    const std::lock_guard lock(mutex_);
    auto& known = lost_.try_emplace(process, how).first->second;
    known.heals = known.heals && how.heals;
    peers_.erase(process);
    for (const auto& [key, group] : groups_)
      group->lose(process, how.why);
  }
  if (exchange_ != nullptr)
    exchange_->forget(process, how.why);
}

}  // namespace troupe::runtime
