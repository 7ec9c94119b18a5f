#include "actors/supervisor/membership.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace troupe::actors {

using runtime::state_source;
using runtime::state_tier;

state_tier order_form::tier() const {
  const auto distance = [](const state_source& x) {
    switch (x.tier) {
      case state_tier::estate:
        return 0;
      case state_tier::keeper:
        return 1;
      case state_tier::local:
        return 2;
      case state_tier::disk:
        return 3;
      default:
        return 4;
    }
  };
  return std::max_element(sources.begin(),
                          sources.end(),
                          [&](const auto& a, const auto& b) { return distance(a) < distance(b); })
      ->tier;
}

membership::membership(restart_limits limits,
                       std::uint32_t epoch,
                       std::uint64_t start,
                       std::vector<runtime::restart> before,
                       int processes)
    : limits_(limits),
      restarts_(limits, std::move(before)),
      generation_(runtime::make_generation(epoch, 1)),
      processes_(std::size_t(processes)),
      start_(start),
      kept_(start),
      furthest_(start) {}

membership::orders membership::begin(bool is_cold) {
  phase_ = phase::ending;
  if (is_cold || runtime::epoch_of(generation_) == 0)
    first_ = generation_;
  if (processes_.size() == 1)
    return stands(0, 0, runtime::epoch_of(generation_) > 0, 0);
  orders out;
  for (int p = 0; p < int(processes_.size()); ++p)
    out.emplace_back(order_start{p});
  return out;
}

membership::orders membership::stands(int process,
                                      std::uint32_t incarnation,
                                      bool lived,
                                      std::uint64_t now_ns) {
  auto& at = processes_[std::size_t(process)];
  if (phase_ == phase::stopped || at.stands || incarnation < at.incarnation)
    return {};  // MEMBER-2
  at.stands = true;
  at.incarnation = incarnation;
  at.is_new = true;
  at.remains.reset();
  if (lived)  // it answers when nothing is left there
    return {order_end{newest_formed(), process}};
  at.remains.emplace();
  return form_if_all_ended(now_ns);
}

void membership::ready(runtime::generation_id generation) {
  if (generation == generation_ && phase_ == phase::forming)
    phase_ = phase::running;
}

void membership::kept(std::uint64_t step) {
  kept_ = std::max(kept_, step);
  furthest_ = std::max(furthest_, kept_);
}

// MEMBER-5.
std::optional<order_stop> membership::stop_if_too_many(const member_death& x,
                                                       std::uint64_t now_ns) {
  if (!limits_.on)
    return order_stop{x.why, x.refused};
  if (!x.is_accident())
    return std::nullopt;
  if (auto why = restarts_.add(x.who, x.why, furthest_ + 1, now_ns))
    return order_stop{std::move(*why), x.refused};
  return std::nullopt;
}

membership::orders membership::end_all() {
  phase_ = phase::ending;
  orders out;
  for (int p = 0; p < int(processes_.size()); ++p) {
    auto& at = processes_[std::size_t(p)];
    if (!at.stands)
      continue;
    at.remains.reset();
    out.emplace_back(end_of(p));
  }
  for (auto& x : broken_)
    x.is_closed = true;
  return out;
}

membership::orders membership::lost(int process,
                                    std::uint32_t incarnation,
                                    const std::string& why,
                                    std::uint64_t now_ns,
                                    process_loss how) {
  auto& at = processes_[std::size_t(process)];
  if (phase_ == phase::stopped || !at.stands || incarnation != at.incarnation)
    return {};  // MEMBER-2
  at.stands = false;
  // Searches the disks again when all processes stand.
  const bool was_looking = std::exchange(is_looking_, false);
  at.remains.emplace();  // the process is gone with all its state
  const member_death death{.generation = generation_,
                           .role = member_role::rank,
                           .who = fmt::format("process:{}", process),
                           .moves = how == process_loss::moves,
                           .why = why,
                           .wrong_bits = how == process_loss::wrong_bits};
  if (!limits_.on) {
    phase_ = phase::stopped;
    return {order_stop{why}};
  }
  const bool ends_generation = phase_ != phase::ending;
  // A search of disks or an exchange has a counted cause. Moves and repeated steps do not count as
  // accidents.
  const bool is_first = ends_generation || was_looking || (exchanged_ && !cause_)
                        || (cause_ && !cause_->is_accident() && death.is_accident());
  if (is_first || (cause_ && death.cause < cause_->cause)) {
    cause_ = death;  // MEMBER-4
  } else if (!at.is_new) {
    // It dies together with the others, for example with its host: one restart.
  } else if (auto stop = stop_if_too_many(death, now_ns)) {
    phase_ = phase::stopped;
    return {std::move(*stop)};
  }
  auto out = ends_generation ? end_all() : orders{};
  out.emplace_back(order_start{process, death.wrong_bits});
  return out;
}

membership::orders membership::lost(const member_death& x, std::uint64_t now_ns) {
  if (phase_ == phase::stopped || (x.role == member_role::rank && x.generation != generation_))
    return {};  // MEMBER-2
  if (x.role == member_role::rank) {
    if (phase_ == phase::ending) {
      if (is_looking_ || exchanged_)
        return {};  // all had ended
      // MEMBER-4: the first reported cause wins, and a cause before its effects.
      if (!cause_ || x.cause < cause_->cause)
        cause_ = x;
      return {};
    }
    if (x.cause == death_cause::cancelled)
      return {};  // the actor that cancelled it is the cause, and will be reported
    cause_ = x;
    // A refusal by the system or the user before the first step is no accident.
    const bool hopeless = x.refused && phase_ == phase::forming && generation_ == first_;
    if (!limits_.on || hopeless) {
      phase_ = phase::stopped;
      return {order_stop{x.why, x.refused}};
    }
    return end_all();
  }
  if (x.cause == death_cause::cancelled) {
    // It ended with its node; that death is counted and reported separately.
    if (!limits_.on)
      return {};
    return {order_replace{x.role, x.process}};
  }
  if (x.role == member_role::monitor && limits_.on) {
    if (restarts_.forgoes(x.who, now_ns))
      return {order_forgo{x.role}};
    return {order_replace{x.role, x.process}};
  }
  if (auto stop = stop_if_too_many(x, now_ns)) {
    // Unreadable data: all other members are well, and their deaths are still handled.
    stop->ranks_stand = x.role == member_role::loader && x.refused && phase_ == phase::running;
    if (!stop->ranks_stand)
      phase_ = phase::stopped;
    return {std::move(*stop)};
  }
  return {order_replace{x.role, x.process}};
}

std::vector<state_source> membership::all_from(state_tier tier, std::uint64_t step) const {
  return std::vector<state_source>(processes_.size(), {tier, runtime::step_id(step)});
}

std::vector<state_source> membership::found(std::uint64_t step) const {
  std::vector<state_source> out;
  for (int p = 0; p < int(processes_.size()); ++p) {
    const auto& own = *processes_[std::size_t(p)].remains;
    if (own.newest && own.oldest && *own.oldest <= step && step <= *own.newest) {
      out.push_back({state_tier::estate, runtime::step_id(step)});
      continue;
    }
    const auto keeper = std::find_if(processes_.begin(), processes_.end(), [&](const auto& other) {
      const auto of = other.remains->kept.find(p);
      return of != other.remains->kept.end()
             && std::find(of->second.begin(), of->second.end(), step) != of->second.end();
    });
    if (keeper == processes_.end())
      return {};
    out.push_back(
        {state_tier::keeper, runtime::step_id(step), std::int32_t(keeper - processes_.begin())});
  }
  return out;
}

// A successor knows the committed steps; the newest of them may not be kept yet.
std::vector<state_source> membership::at_hand() const {
  auto out = found(kept_);
  if (out.empty() && !formed_ && kept_ > start_)
    out = found(kept_ - 1);
  return out;
}

// MEMBER-3, MEMBER-6: the newest available state; of two equally new ones the nearer tier.
std::vector<state_source> membership::sources() const {
  auto near = at_hand();
  const bool older = wants_older();
  if (!near.empty() && !older)
    return near;
  const bool goes_back = stored_ && (near.empty() || stored_->step < value(near.front().step));
  if (goes_back && stored_->step >= saved_.value_or(0) && stored_->step > start_) {
    auto out = all_from(state_tier::local, stored_->step);
    for (std::size_t p = 0; p < out.size(); ++p)
      out[p].keeper = stored_->holders[p];
    return out;
  }
  if (saved_)
    return all_from(state_tier::disk, *saved_);
  return near.empty() ? all_from(state_tier::start, start_) : near;
}

// MEMBER-1: generations are formed only here.
membership::orders membership::form_if_all_ended(std::uint64_t now_ns) {
  const auto has_ended
      = [this](std::size_t p) { return processes_[p].stands && processes_[p].remains; };
  if (phase_ != phase::ending || !all_ended_(processes_.size(), has_ended) || is_looking_)
    return {};
  if (auto again = close_what_broke(); !again.empty())
    return again;
  const auto cause = std::exchange(cause_, std::nullopt);
  if (cause) {
    by_accident_ = cause->is_accident();
    if (auto stop = stop_if_too_many(*cause, now_ns)) {
      phase_ = phase::stopped;
      return {std::move(*stop)};
    }
  }
  is_settled_ = true;
  stored_.reset();
  if (auto exchange = exchange_unreachable(cause ? cause->why : "", now_ns); !exchange.empty())
    return exchange;
  const bool began = formed_ || runtime::epoch_of(generation_) > 0;
  const auto near = at_hand();
  if (looks_at_disks_ && began && (near.empty() || wants_older())) {
    is_looking_ = true;
    order_look look{++looks_};
    if (!near.empty())
      look.before = value(near.front().step);
    return {look};
  }
  return form();
}

membership::orders membership::looked(std::uint64_t number,
                                      std::optional<stored_everywhere> found) {
  if (phase_ != phase::ending || !is_looking_ || number != looks_)
    return {};
  is_looking_ = false;
  if (auto again = close_what_broke(); !again.empty())
    return again;  // the search starts again then
  stored_ = std::move(found);
  return form();
}

membership::orders membership::form() {
  auto from = sources();
  cause_.reset();
  by_accident_ = true;
  broken_.clear();
  exchanged_ = false;
  is_settled_ = false;
  if (std::exchange(formed_, true))
    generation_ = runtime::next(generation_);
  kept_ = runtime::value(from.front().step);
  phase_ = phase::forming;
  for (auto& x : processes_)
    x.is_new = false;
  return {order_form{generation_, std::move(from)}};
}

membership::orders membership::ended(runtime::generation_id generation,
                                     int process,
                                     generation_remains remains,
                                     std::uint64_t now_ns) {
  auto& at = processes_[std::size_t(process)];
  if (phase_ != phase::ending || generation != newest_formed() || !at.stands || at.remains)
    return {};  // MEMBER-1
  at.remains = std::move(remains);
  return form_if_all_ended(now_ns);
}

}  // namespace troupe::actors
