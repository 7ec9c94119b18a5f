#include "actors/supervisor/membership.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace troupe::actors {

using runtime::state_tier;

membership::membership(restart_limits limits,
                       std::uint32_t epoch,
                       std::uint64_t step,
                       std::vector<runtime::restart> before,
                       std::optional<std::uint64_t> start)
    : limits_(limits),
      generation_(runtime::make_generation(epoch, 1)),
      start_(start.value_or(step)),
      kept_(step),
      furthest_(step),
      restarts_(std::move(before)),
      taken_(restarts_.size()) {}

membership::orders membership::begin() {
  if (runtime::epoch_of(generation_) == 0) {
    phase_ = phase::forming;
    return {order_form{generation_, {state_tier::start, runtime::step_id(start_)}}};
  }
  phase_ = phase::ending;  // what an older epoch left; its last generation is not known here
  return {order_end{runtime::generation_id(runtime::value(generation_) - 1)}};
}

void membership::ready(runtime::generation_id generation) {
  if (generation == generation_ && phase_ == phase::forming)
    phase_ = phase::running;
}

void membership::kept(std::uint64_t step) {
  kept_ = std::max(kept_, step);
  furthest_ = std::max(furthest_, kept_);
}

void membership::count(const member_death& x, std::uint64_t now_ns) {
  restarts_.push_back({now_ns, x.who, furthest_ + 1});
}

int membership::without_progress() const {
  int out = 0;
  for (auto at = restarts_.rbegin(); at != restarts_.rend(); ++at) {
    if (at->step == 0)
      continue;  // a monitor's
    if (at->step != furthest_ + 1)
      break;
    ++out;
  }
  return out;
}

// MEMBER-5.
std::optional<order_stop> membership::stop_if_too_many(const member_death& x,
                                                       std::uint64_t now_ns) {
  if (!limits_.on)
    return order_stop{x.why, x.refused};
  count(x, now_ns);
  const auto in_window
      = std::count_if(restarts_.begin(), restarts_.end(), [&](const runtime::restart& r) {
          return r.step > 0 && r.at_ns + limits_.window_ns >= now_ns;
        });
  if (without_progress() >= limits_.without_progress)
    return order_stop{
        fmt::format("{}; it is the death number {} in a row at step {}, so it is no accident",
                    x.why,
                    without_progress(),
                    furthest_ + 1),
        x.refused};
  if (in_window > limits_.most)
    return order_stop{fmt::format("{}; {} restarts within {:.0f} s are more than "
                                  "`recovery.max_restarts` {}",
                                  x.why,
                                  in_window,
                                  double(limits_.window_ns) / 1e9,
                                  limits_.most),
                      x.refused};
  return std::nullopt;
}

membership::orders membership::lost(const member_death& x, std::uint64_t now_ns) {
  if (phase_ == phase::stopped || (x.role == member_role::rank && x.generation != generation_))
    return {};  // MEMBER-2
  if (x.role == member_role::rank) {
    if (phase_ == phase::ending) {
      // MEMBER-4: of causes the first that is heard, and a cause before what it caused.
      if (!cause_ || x.cause < cause_->cause)
        cause_ = x;
      return {};
    }
    if (x.cause == death_cause::cancelled)
      return {};  // who cancelled it is the cause, and comes
    cause_ = x;
    // What the system or the user refuses before the first step is no accident.
    const bool hopeless
        = x.refused && phase_ == phase::forming && generation_ == runtime::make_generation(0, 1);
    if (!limits_.on || hopeless) {
      phase_ = phase::stopped;
      return {order_stop{x.why, x.refused}};
    }
    phase_ = phase::ending;
    return {order_end{generation_}};
  }
  if (x.cause == death_cause::cancelled) {
    // It was ended: with its node, whose own death counts and comes.
    if (!limits_.on)
      return {};
    return {order_replace{x.role}};
  }
  if (x.role == member_role::monitor && limits_.on) {
    // A log that cannot be kept ends no training.
    const auto same
        = std::count_if(restarts_.begin(), restarts_.end(), [&](const runtime::restart& r) {
            return r.who == x.who && r.at_ns + limits_.window_ns >= now_ns;
          });
    restarts_.push_back({now_ns, x.who, 0});
    if (same + 1 >= limits_.without_progress)
      return {order_forgo{x.role}};
    return {order_replace{x.role}};
  }
  if (auto stop = stop_if_too_many(x, now_ns)) {
    phase_ = phase::stopped;
    return {std::move(*stop)};
  }
  return {order_replace{x.role}};
}

std::optional<order_form> membership::source_of(const std::vector<generation_remains>& remains,
                                                std::optional<std::uint64_t> saved) const {
  const bool has_kept
      = !remains.empty() && std::all_of(remains.begin(), remains.end(), [&](const auto& x) {
          return x.newest && x.oldest && *x.oldest <= kept_ && kept_ <= *x.newest;
        });
  const auto next = runtime::next(generation_);
  // What strikes again and again may lie in what was kept.
  const bool older = without_progress() >= limits_.without_progress - 1;
  if (has_kept && !older)
    return order_form{next, {state_tier::estate, runtime::step_id(kept_)}};
  if (saved)
    return order_form{next, {state_tier::disk, runtime::step_id(*saved)}};
  if (has_kept)
    return order_form{next, {state_tier::estate, runtime::step_id(kept_)}};
  return order_form{next, {state_tier::start, runtime::step_id(start_)}};
}

// MEMBER-1: only here is a generation formed that follows another.
membership::orders membership::ended(runtime::generation_id generation,
                                     const std::vector<generation_remains>& remains,
                                     std::optional<std::uint64_t> saved,
                                     std::uint64_t now_ns) {
  const bool of_older_epoch
      = generation == runtime::make_generation(runtime::epoch_of(generation_), 0);
  if (phase_ != phase::ending || (generation != generation_ && !of_older_epoch))
    return {};  // MEMBER-1
  if (cause_)
    if (auto stop = stop_if_too_many(*cause_, now_ns)) {
      phase_ = phase::stopped;
      return {std::move(*stop)};
    }
  auto form = *source_of(remains, saved);
  if (of_older_epoch)
    form.generation = generation_;  // nobody was of it yet
  generation_ = form.generation;
  kept_ = runtime::value(form.source.step);
  phase_ = phase::forming;
  cause_.reset();
  return {std::move(form)};
}

std::vector<runtime::restart> membership::take_restarts() {
  std::vector<runtime::restart> out(restarts_.begin() + std::ptrdiff_t(taken_), restarts_.end());
  taken_ = restarts_.size();
  return out;
}

}  // namespace troupe::actors
