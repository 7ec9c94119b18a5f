#include "runtime/collective/window/distant_wire.hpp"

#include "runtime/collective/window/exchange_message.hpp"

#include <algorithm>

namespace troupe::runtime {

std::uint64_t distant_wire::rounds(int rank) {
  const std::lock_guard lock(by_.mutex_);
  const auto at = by_.mirrors_.find({process_, group_, rank});
  return at == by_.mirrors_.end() ? 0 : at->second.rounds;
}

bool distant_wire::has_left(int rank) {
  const std::lock_guard lock(by_.mutex_);
  const auto at = by_.mirrors_.find({process_, group_, rank});
  return at != by_.mirrors_.end() && at->second.left;
}

std::optional<window_offer> distant_wire::offer(int rank, std::uint64_t round) {
  const std::lock_guard lock(by_.mutex_);
  const auto at = by_.mirrors_.find({process_, group_, rank});
  if (at == by_.mirrors_.end() || at->second.offered[round % 2] != round)
    return std::nullopt;
  return at->second.offers[round % 2];
}

// Strips addresses, which are meaningless in another process.
void distant_wire::tell(int rank, std::uint64_t rounds, bool left, const window_offer* offer) {
  window_exchange::message x;
  x.verb = window_verb::post;
  x.rank = rank;
  x.generation = value(generation_);
  x.round = rounds;
  x.left = left ? 1 : 0;
  std::copy(group_.begin(), group_.end(), x.group.begin());
  std::vector<std::int64_t> words;
  if (offer != nullptr) {
    auto without = *offer;
    for (auto& array : without.arrays)
      array = {.bytes = array.bytes};
    words = words_of(without);
  }
  by_.send(process_, x, std::move(words));
}

void distant_wire::begin(window_read& x) {
  window_exchange::message ask;
  ask.verb = window_verb::ask;
  ask.rank = x.rank;
  ask.generation = value(generation_);
  ask.round = x.round;
  ask.array = x.array;
  ask.begin = x.begin;
  std::copy(group_.begin(), group_.end(), ask.group.begin());
  x.under_way = by_.ask(process_, ask, std::int64_t(x.into.size()));
}

bool distant_wire::is_ready(const window_read& x) {
  const std::lock_guard lock(by_.mutex_);
  return static_cast<const window_exchange::fetch*>(x.under_way.get())->over;
}

bool distant_wire::finish(window_read& x) {
  const auto done = std::static_pointer_cast<window_exchange::fetch>(std::move(x.under_way));
  {
    const std::lock_guard lock(by_.mutex_);
    if (done->refused)
      return false;
  }
  std::memcpy(x.into.data(), done->place.get(), x.into.size());
  return true;
}

}  // namespace troupe::runtime
