#include "runtime/state/kept_states.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace troupe::runtime {
namespace {

bool is_among(const std::vector<int>& ranks, int rank) {
  return std::ranges::find(ranks, rank) != ranks.end();
}

}  // namespace

const kept_states::slot* kept_states::held(int rank, std::uint64_t iteration) const {
  const auto found = all_.find(rank);
  if (found == all_.end())
    return nullptr;
  for (const auto& x : found->second)
    if (x.of && x.of->has(iteration))
      return &x;
  return nullptr;
}

// KEPT-1. States of the same or a later iteration were computed before the ranks went back, and are
// replaced first.
void kept_states::put(generation_id generation, int rank, iteration_range of, rank_state x) {
  auto whole = std::make_shared<const rank_state>(std::move(x));
  const auto worth = [of](const slot& one) {
    const int kind = !one.of ? 2 : one.of->has(of.last) ? 0 : one.of->last >= of.last ? 1 : 3;
    return std::tuple(kind, kind == 3 ? one.of->last : 0, one.generation);
  };
  const std::lock_guard lock(mutex_);
  auto& slots = all_[rank];
  const std::size_t at = worth(slots[0]) <= worth(slots[1]) ? 0 : 1;
  slots[at] = {generation, of, std::move(whole)};
  auto& other = slots[1 - at];
  if (other.of && other.generation < generation && other.of->last >= of.last)
    other = {};
}

void kept_states::extend(generation_id generation, int rank, std::uint64_t iteration) {
  const std::lock_guard lock(mutex_);
  for (auto& x : all_[rank])
    if (x.of && x.generation == generation && x.of->last + 1 == iteration)
      x.of->last = iteration;
}

void kept_states::forget_others_after(const std::vector<int>& ranks, std::uint64_t iteration) {
  const std::lock_guard lock(mutex_);
  for (auto& [rank, slots] : all_)
    for (auto& x : slots)
      if (!is_among(ranks, rank) && x.of && x.of->last > iteration) {
        if (x.of->first > iteration)
          x = {};
        else
          x.of->last = iteration;
      }
}

void kept_states::forget_others(const std::vector<int>& ranks) {
  const std::lock_guard lock(mutex_);
  std::erase_if(all_, [&](const auto& x) { return !is_among(ranks, x.first); });
}

kept_states::state kept_states::find(int rank, std::uint64_t iteration) const {
  const std::lock_guard lock(mutex_);
  const auto* const found = held(rank, iteration);
  return found == nullptr ? nullptr : found->what;
}

bool kept_states::has(generation_id generation,
                      const std::vector<int>& ranks,
                      std::uint64_t iteration) const {
  const std::lock_guard lock(mutex_);
  for (const int rank : ranks) {
    const auto found = all_.find(rank);
    if (found == all_.end()
        || std::none_of(found->second.begin(), found->second.end(), [&](const slot& x) {
             return x.generation == generation && x.of && x.of->has(iteration);
           }))
      return false;
  }
  return true;
}

std::vector<std::uint64_t> kept_states::iterations(const std::vector<int>& ranks) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::uint64_t> out;
  const auto of_first = ranks.empty() ? all_.end() : all_.find(ranks.front());
  if (of_first == all_.end())
    return out;
  const auto all_keep = [&](std::uint64_t iteration) {
    return std::ranges::all_of(ranks, [&](int rank) { return held(rank, iteration) != nullptr; });
  };
  for (const auto& x : of_first->second) {
    if (!x.of)
      continue;
    for (auto i = x.of->first; i <= x.of->last; ++i)
      if (all_keep(i))
        out.push_back(i);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::vector<int> kept_states::ranks() const {
  const std::lock_guard lock(mutex_);
  std::vector<int> out;
  for (const auto& [rank, slots] : all_)
    out.push_back(rank);
  return out;
}

std::int64_t kept_states::bytes() const {
  const std::lock_guard lock(mutex_);
  std::int64_t out = 0;
  for (const auto& [rank, slots] : all_)
    for (const auto& x : slots)
      if (x.what)
        for (const auto& [id, part] : x.what->parts) {
          out += std::int64_t(part.kept.bytes());
          for (const auto& one : part.weights)
            out += std::int64_t(one.bytes());
        }
  return out;
}

}  // namespace troupe::runtime
