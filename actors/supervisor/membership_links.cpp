// Data connections that break between living processes: MEMBER-7.

#include "actors/supervisor/membership.hpp"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <set>
#include <utility>

namespace troupe::actors {

membership::orders membership::broke(const broken_link& x,
                                     runtime::generation_id generation,
                                     const std::string& why) {
  const auto is_here = [&](int p, std::uint32_t incarnation) {
    const auto& at = processes_[std::size_t(p)];
    return at.stands && at.incarnation == incarnation;
  };
  // Without recovery, the ranks' deaths report the cause.
  if (phase_ == phase::stopped || !limits_.on || generation != generation_ || !formed_
      || !is_here(x.from, x.from_incarnation) || !is_here(x.to, x.to_incarnation))
    return {};  // MEMBER-2
  auto pair = x;
  if (pair.from > pair.to) {
    std::swap(pair.from, pair.to);
    std::swap(pair.from_incarnation, pair.to_incarnation);
  }
  // A report after all had ended is late: it is no cause and does not count, but both ends close
  // their connections.
  pair.is_late = is_settled_;
  if (std::none_of(broken_.begin(), broken_.end(), [&](const auto& other) {
        return other.from == pair.from && other.to == pair.to;
      }))
    broken_.push_back(pair);
  if (pair.is_late)
    return {};
  const member_death death{.generation = generation_,
                           .role = member_role::rank,
                           .who = fmt::format("connection:{}-{}", pair.from, pair.to),
                           .cause = death_cause::connection,
                           .why = why};
  if (!cause_ || death.cause < cause_->cause || cause_->runs_again)
    cause_ = death;  // MEMBER-4
  return phase_ == phase::ending ? orders{} : end_all();
}

bool membership::is_between_living(const broken_link& x) const {
  return stands(x.from) && incarnation(x.from) == x.from_incarnation && stands(x.to)
         && incarnation(x.to) == x.to_incarnation;
}

order_end membership::end_of(int process) const {
  order_end out{newest_formed(), process};
  for (const auto& x : broken_)
    if (is_between_living(x) && (x.from == process || x.to == process))
      out.broken_with.push_back(x.from == process ? x.to : x.from);
  return out;
}

membership::orders membership::close_what_broke() {
  std::set<int> whom;
  for (auto& x : broken_)
    if (!std::exchange(x.is_closed, true) && is_between_living(x))
      whom.insert({x.from, x.to});
  orders out;
  for (const int p : whom) {
    processes_[std::size_t(p)].remains.reset();
    out.emplace_back(end_of(p));
  }
  return out;
}

std::ptrdiff_t membership::breaks_of(int process) const {
  const auto now = incarnation(process);
  return std::count_if(past_breaks_.begin(), past_breaks_.end(), [&](const auto& b) {
    return (b.from == process && b.from_incarnation == now)
           || (b.to == process && b.to_incarnation == now);
  });
}

bool membership::is_shunned(int process) const {
  std::set<int> peers;
  for (const auto& b : past_breaks_) {
    const bool is_from = b.from == process;
    if (b.is_of(process)
        && (is_from ? b.from_incarnation : b.to_incarnation) == incarnation(process))
      peers.insert(is_from ? b.to : b.from);
  }
  return peers.size() > 1 && std::all_of(peers.begin(), peers.end(), [&](int peer) {
           return breaks_of(process) > breaks_of(peer);
         });
}

std::vector<int> membership::unreachable(const std::vector<past_break>& now) const {
  std::vector<int> out;
  for (const auto& x : now)
    for (const int p : {x.from, x.to})
      if (is_shunned(p) && std::find(out.begin(), out.end(), p) == out.end())
        out.push_back(p);
  std::stable_sort(
      out.begin(), out.end(), [&](int a, int b) { return breaks_of(a) > breaks_of(b); });
  for (const auto& x : now) {
    const auto between = std::count_if(past_breaks_.begin(), past_breaks_.end(), [&](auto& b) {
      return b.from == x.from && b.to == x.to;
    });
    if (between < 2)
      continue;
    // Prefers the process that others cannot reach either; else alternates between the two.
    const auto from = breaks_of(x.from), to = breaks_of(x.to);
    const bool takes_from = from == to ? between % 2 == 1 : from > to;
    out.push_back(takes_from ? x.from : x.to);
    out.push_back(takes_from ? x.to : x.from);
  }
  return out;
}

bool membership::can_spare(int process) {
  const auto with = sources().front().step;
  auto& remains = processes_[std::size_t(process)].remains;
  auto left = std::exchange(remains, generation_remains{});
  const auto without = sources().front().step;
  remains = std::move(left);
  return without == with;
}

// All have ended: only keepers' copies remain of an exchanged process.
membership::orders membership::exchange_unreachable(const std::string& why, std::uint64_t now_ns) {
  std::erase_if(past_breaks_, [&](const auto& b) { return b.at_ns + limits_.window_ns < now_ns; });
  std::vector<past_break> now;
  for (const auto& x : std::exchange(broken_, {}))
    if (!x.is_late && incarnation(x.from) == x.from_incarnation
        && incarnation(x.to) == x.to_incarnation)
      now.push_back({x.from, x.to, x.from_incarnation, x.to_incarnation, now_ns});
  past_breaks_.insert(past_breaks_.end(), now.begin(), now.end());
  const auto all = unreachable(now);
  const auto whom = std::find_if(all.begin(), all.end(), [&](int p) { return can_spare(p); });
  if (whom == all.end())
    return {};
  auto& at = processes_[std::size_t(*whom)];
  at.stands = false;
  at.remains.emplace();
  exchanged_ = true;
  return {order_exchange{*whom, why}};
}

}  // namespace troupe::actors
