#include "actors/command/chaos/plan.hpp"

#include "actors/command/readers.hpp"
#include "runtime/core/random.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>
#include <utility>

namespace troupe::command::chaos {
namespace {

/// Steps after the last fault, which show that the run continues.
constexpr std::uint64_t steps_after = 10;
constexpr std::size_t most_plants = 16;  // limit of --plant-death

/// A kind, a role and, for planted faults, the possible moments.
struct pairing {
  fault_kind kind;
  role who;
  std::vector<std::string> moments;
};

/// The last step with `steps_after` steps after it.
std::uint64_t last_step(const plan_wish& wish) {
  return wish.last - std::min(wish.last, steps_after);
}

/// Period of the steps that have that moment. Empty if none of them is early enough.
std::optional<std::uint64_t> period_of(const std::string& moment, const plan_wish& wish) {
  const std::uint64_t period = moment == "save" || moment == "snapshot" ? wish.save_every
                               : moment == "validate"                   ? wish.validate_every
                                                                        : 1;
  if (period == 0 || last_step(wish) / period * period <= wish.first)
    return std::nullopt;
  return period;
}

std::vector<pairing> pairings_of(const plan_wish& wish, const runtime::training_job& job) {
  std::vector<pairing> out;
  for (const auto kind : wish.kinds)
    for (const auto who : wish.roles) {
      if (!why_not(kind, who, wish.link_commands, wish.over_hosts).empty())
        continue;
      pairing x{kind, who, moments_for(kind, who, job)};
      const auto& wanted = wish.moments;
      std::erase_if(x.moments, [&](const std::string& moment) {
        return !period_of(moment, wish)
               || (!wanted.empty()
                   && std::find(wanted.begin(), wanted.end(), moment) == wanted.end());
      });
      if (row_of(who).is_process || !x.moments.empty())
        out.push_back(std::move(x));
    }
  return out;
}

[[noreturn]] void refuse_short(const plan_wish& wish) {
  throw usage_error(
      "the job has iterations {} to {}: too few for a fault every {} steps and {} steps after it; "
      "raise --train-iters, or lower --every",
      wish.first + 1,
      wish.last,
      wish.every,
      steps_after);
}

std::vector<pairing> some_pairings_of(const plan_wish& wish, const runtime::training_job& job) {
  if (last_step(wish) <= wish.first)
    refuse_short(wish);
  auto out = pairings_of(wish, job);
  if (!out.empty())
    return out;
  for (const auto kind : wish.kinds)
    for (const auto who : wish.roles)
      if (const auto why = why_not(kind, who, wish.link_commands, wish.over_hosts); !why.empty())
        throw usage_error("--kinds and --roles leave no possible fault: {}", why);
  throw usage_error(
      "--kinds, --roles and --moments leave no possible fault: the job does not reach these "
      "moments with {} steps left, or cannot detect such a fault (snapshot and save need "
      "--save-interval, validate --eval-interval)",
      steps_after);
}

/// Random numbers for one fault, independent of other faults, so that it can be repeated alone.
class drawing {
 public:
  drawing(std::uint64_t seed, std::uint64_t number)
      : key_(runtime::random_key(seed, "chaos", number)) {}
  double share() { return runtime::uniform(key_, drawn_++); }
  std::size_t below(std::size_t count) {
    return std::min(std::size_t(share() * double(count)), count - 1);
  }

 private:
  std::uint64_t key_, drawn_ = 0;
};

/// Draws the fault's properties; `step` is its approximate step. Returns false if it does not fit
/// into the run.
bool place(disturbance& x,
           const pairing& of,
           std::uint64_t step,
           const plan_wish& wish,
           const runtime::training_job& job,
           drawing& by) {
  x.kind = of.kind;
  x.who = of.who;
  x.delay = by.share();
  x.choice = by.share();
  x.step = step;
  if (!row_of(of.who).is_process) {
    x.moment = of.moments[by.below(of.moments.size())];
    const auto period = *period_of(x.moment, wish);
    x.step = (step + period - 1) / period * period;
    if (x.step > last_step(wish) && step <= last_step(wish))
      x.step = last_step(wish) / period * period;
    x.actor
        = actor_of(of.who, x.moment, job, [&](int count) { return by.below(std::size_t(count)); });
    x.plants = plants_of(of.kind, x.actor, x.step, x.moment, job);
  }
  return x.step > wish.first && x.step <= last_step(wish);
}

/// Number of steps to leave free after the fault. Empty: unlimited, since a service that hangs may
/// be detected late.
std::optional<std::uint64_t> steps_of(const disturbance& x, const plan_wish& wish) {
  if (x.kind == fault_kind::hang && is_service(x.who))
    return std::nullopt;
  const auto by = trace_of(x.kind, x.who);
  const bool is_refused = by == trace::refused_write || by == trace::refused_state;
  const auto lasts = seconds_of(x.kind, wish.suspicion, wish.step_seconds);
  return (is_refused ? 3 * steps_after : steps_after)  // refusals are logged later
         + (wish.step_seconds > 0 ? std::uint64_t(std::ceil(lasts / wish.step_seconds)) : 0);
}

/// True if the fault fits into its run beside the earlier ones.
bool fits(const disturbance& x, const std::vector<disturbance>& before, const plan_wish& wish) {
  std::size_t plants = x.plants.size();
  for (const auto& other : before) {
    if (other.run != x.run)
      continue;
    if (const auto steps = steps_of(other, wish); !steps || x.step < other.step + *steps)
      return false;
    if (x.who == other.who && leaves_nobody(other.kind, other.who))
      return false;
    plants += other.plants.size();
    // A plant strikes only once, so it cannot be repeated in a run.
    for (const auto& text : x.plants)
      if (std::find(other.plants.begin(), other.plants.end(), text) != other.plants.end())
        return false;
  }
  return plants <= most_plants;
}

}  // namespace

std::vector<disturbance> plan_of(const plan_wish& wish, const runtime::training_job& job) {
  const auto pairings = some_pairings_of(wish, job);
  std::vector<disturbance> out;
  std::uint64_t run = 1, newest = wish.first;
  while (out.size() < wish.count) {
    disturbance x{.number = out.size() + 1, .run = run};
    drawing by(wish.seed, x.number);
    const auto& of = pairings[by.below(pairings.size())];
    const auto step
        = std::max(newest + wish.every + std::uint64_t(by.share() * double(wish.every) / 2),
                   newest + steps_after);
    if (place(x, of, step, wish, job, by) && fits(x, out, wish)) {
      newest = x.step;
      out.push_back(std::move(x));
    } else if (newest == wish.first) {
      refuse_short(wish);
    } else {
      ++run;
      newest = wish.first;
    }
  }
  return out;
}

std::vector<disturbance> plan_of_all(const plan_wish& wish, const runtime::training_job& job) {
  std::vector<disturbance> out;
  const auto add = [&](pairing of, const std::string& moment) {
    disturbance x{.number = out.size() + 1, .run = out.size() + 1};
    drawing by(wish.seed, x.number);
    if (!moment.empty())
      of.moments = {moment};
    if (!place(x, of, wish.first + steps_after, wish, job, by))
      refuse_short(wish);
    out.push_back(std::move(x));
  };
  for (const auto& of : some_pairings_of(wish, job)) {
    if (of.moments.empty())
      add(of, "");
    for (const auto& moment : of.moments)
      add(of, moment);
  }
  return out;
}

}  // namespace troupe::command::chaos
