// The connections of a transport: making, forgetting and losing them.

#include "runtime/transport/wire_fetch.hpp"
#include "runtime/transport/wire_transport.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace troupe::runtime {

void wire_transport::introduce(const transport_address& who) {
  peer_number before = {};
  {
    const std::lock_guard lock(mutex_);
    auto& x = others_[who.process];
    if (x.where == who.where && x.lost.empty())
      return;
    before = std::exchange(x, other{who.where, {}, {}}).number;
  }
  if (before != peer_number{})
    wire_->close(before, "its process was introduced anew");
}

/// The connections by which it asks and is asked. The mutex is held.
std::vector<peer_number> wire_transport::peers_of(std::uint64_t process) const {
  std::vector<peer_number> out;
  for (const auto& [peer, asker] : askers_)
    if (asker == process)
      out.push_back(peer);
  if (const auto at = others_.find(process);
      at != others_.end() && at->second.number != peer_number{})
    out.push_back(at->second.number);
  return out;
}

void wire_transport::forget(std::uint64_t process, const std::string& why) {
  std::vector<peer_number> all;
  {
    const std::lock_guard lock(mutex_);
    all = peers_of(process);
    if (const auto at = others_.find(process); at != others_.end()) {
      at->second.lost = why;
      at->second.heals = false;
    }
  }
  for (const auto one : all)
    wire_->close(one, why);
}

void wire_transport::renew_connections(std::uint64_t process, const std::string& why) {
  std::vector<peer_number> all;
  {
    const std::lock_guard lock(mutex_);
    all = peers_of(process);
    const auto at = others_.find(process);
    if (at != others_.end() && (at->second.lost.empty() || at->second.heals)) {
      at->second.lost.clear();
      at->second.heals = false;
      at->second.missed = {};
      at->second.number = {};
    }
  }
  for (const auto one : all)
    wire_->close(one, why);
}

void wire_transport::lost(peer_number who, const std::string& why) {
  if (lender_ != nullptr)
    lender_->end_all(who);
  std::vector<lease> released;
  std::optional<std::uint64_t> broken;
  generation_id newest = {};
  {
    const std::lock_guard lock(mutex_);
    askers_.erase(who);
    const auto to = std::find_if(
        others_.begin(), others_.end(), [&](const auto& x) { return x.second.number == who; });
    const auto where = to == others_.end() ? std::string("its holder") : to->second.where;
    const auto was_waited_for = std::erase_if(fetches_, [&](const auto& entry) {
      auto& x = *entry.second;
      if (x.from != who)
        return false;
      newest = std::max(newest, x.what.generation);
      x.finish(loss_of(x.what, where, why));
      return true;
    });
    if (to != others_.end() && to->second.lost.empty()) {
      // A reader in shared memory may notice the loss before the wire does. A redeemer that
      // received a part and has not asked for the next one cannot get it: the holder has dropped
      // the lease.
      newest = std::max({newest, to->second.missed, half_redeemed_of(to->first)});
      to->second.missed = {};
      if (was_waited_for > 0 || newest != generation_id{}) {
        broken = to->first;
        to->second.lost = why;
        to->second.heals = true;
      } else {
        to->second.number = {};  // no wait is affected: the next redeem connects anew
      }
    }
    for (auto at = leases_.begin(); at != leases_.end();) {
      if (at->second.taker != who) {
        ++at;
        continue;
      }
      released.push_back(std::move(at->second));
      at = leases_.erase(at);
      ++counters_.dropped;
    }
  }
  if (broken && settings_.broke)
    settings_.broke(*broken, newest, why);
}

}  // namespace troupe::runtime
