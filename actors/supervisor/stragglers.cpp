#include "actors/supervisor/stragglers.hpp"

#include "actors/host/merged_times.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>
#include <utility>

namespace troupe::actors {
namespace {

constexpr double unknown = -1;
/// Keeps the required number of steps finite when most steps are slow.
constexpr double most_by_themselves = 0.9;

double median(other_workers::numbers x) {
  int all = 0, before = 0;
  for (const auto& [value, number] : x)
    all += number;
  const auto middle = x.begin() + std::ptrdiff_t(x.size() / 2);
  if (all > 0 && all == int(x.size())) {  // one worker each
    std::ranges::nth_element(x, middle);
    return middle->first;
  }
  std::ranges::sort(x);
  for (const auto& [value, number] : x)
    if ((before += number) > all / 2)
      return value;
  return unknown;
}

/// Median absolute deviation.
double spread_of(other_workers::numbers x) {
  if (x.empty())
    return 0;
  const double middle = median(x);
  for (auto& [value, number] : x)
    value = std::abs(value - middle);
  return median(std::move(x));
}

/// Those of one stage.
template <class Value>
auto of_stage(const std::map<std::pair<int, int>, Value>& all, int stage) {
  return std::ranges::subrange(all.lower_bound({stage, std::numeric_limits<int>::min()}),
                               all.upper_bound({stage, std::numeric_limits<int>::max()}));
}

other_workers::numbers seconds_in(const std::map<int, int>& bins) {
  other_workers::numbers out;
  for (const auto& [bin, workers] : bins)
    out.emplace_back(middle_of_bin(bin), workers);
  return out;
}

}  // namespace

std::vector<worker_times> listed_workers(const messages::vote& all) {
  std::vector<worker_times> out;
  for (const auto& x : all.times)
    out.push_back({x.replica, x.stage_index, x.computing, x.redeeming, x.awaiting_batches});
  return out;
}

std::vector<other_workers> unlisted_workers(const messages::vote& all) {
  std::vector<other_workers> out;
  for (const auto& x : all.other_times)
    out.push_back(
        {x.stage_index,
         {seconds_in(x.computing), seconds_in(x.redeeming), seconds_in(x.awaiting_batches)}});
  return out;
}

std::string to_string(slowness x) {
  switch (x) {
    case slowness::compute:
      return "compute";
    case slowness::link:
      return "link";
    case slowness::input:
      return "input";
    default:
      return "over";
  }
}

stragglers::reference stragglers::usual(const place& of,
                                        std::size_t cause,
                                        const std::map<place, times>& now) const {
  if (const auto crowd = crowds_.find(of.first); crowd != crowds_.end())
    return crowd->second.usual[cause];
  numbers here, before;
  for (const auto& [other, at] : of_stage(now, of.first)) {
    if (other == of)
      continue;
    here.emplace_back(at[cause], 1);
    const auto found = workers_.find(other);
    if (found == workers_.end())
      continue;
    const auto& past = found->second.past;
    const auto n = std::min(past.size(), rule_.recent);
    for (auto i = past.size() - n; i < past.size(); ++i)
      before.emplace_back(past[i][cause], 1);
  }
  if (!here.empty()) {  // a single moment of one worker says little, so steps before count, too
    const auto most = std::max(median(here), median(before));
    return {most, spread_of(before)};
  }
  const auto found = workers_.find(of);
  if (found == workers_.end() || found->second.past.size() < rule_.known)
    return {};
  for (const auto& x : found->second.past)
    before.emplace_back(x[cause], 1);
  return {median(before), spread_of(before)};
}

bool stragglers::is_slow(const times& mine,
                         std::size_t cause,
                         const reference& beside,
                         double work) const {
  const double more = (mine[cause] - beside.usual) * work;
  return beside.usual >= 0 && mine[cause] > rule_.ratio * beside.usual
         && more > std::max(rule_.least, rule_.share * mine[0] * work)
         && more > rule_.spread * beside.spread * work;
}

// A worker that computes longer than it waits is not held up.
stragglers::reference stragglers::at_most_half(reference x, std::size_t cause, const times& mine) {
  if (cause > 0)
    x.usual = x.usual < 0 ? mine[0] / 2 : std::min(x.usual, mine[0] / 2);
  return x;
}

// If p is the chance of a slow step, one of n workers has m of them in a row, from a given step on,
// with probability n p^m.
int stragglers::needed(slowness cause) const {
  const auto& seen = chances_[std::size_t(cause) - 1];
  if (seen.all <= 0 || seen.slow <= 0 || all_workers_ == 0)
    return rule_.in_a_row;
  const double p = std::min(seen.slow / seen.all, most_by_themselves);
  const double steps = std::log(rule_.by_chance / double(all_workers_)) / std::log(p);
  return std::max(rule_.in_a_row, int(std::ceil(steps)));
}

void stragglers::end_row(known_worker& x, std::size_t cause) {
  if (!std::exchange(x.named[cause], false))
    chances_[cause].slow += x.slow[cause];
  x.slow[cause] = 0;
  x.slow_seconds[cause] = 0;
}

void stragglers::count(known_worker& x, std::size_t cause, bool is_slow, double seconds) {
  chances_[cause].all += 1;
  if (!is_slow)
    return end_row(x, cause);
  ++x.slow[cause];
  x.slow_seconds[cause] += seconds;
}

bool stragglers::is_to_be_named(const known_worker& x, std::size_t cause, bool has_others) const {
  return x.slow[cause] >= needed(slowness(cause + 1))
         && (has_others || x.slow_seconds[cause] >= rule_.alone);
}

straggler_news stragglers::judge(const place& of, const std::map<place, times>& now, double work) {
  auto& x = workers_[of];
  const auto& mine = now.at(of);
  const double seconds = (mine[0] + mine[1] + mine[2]) * work;
  const bool has_others
      = crowds_.contains(of.first) || std::ranges::distance(of_stage(now, of.first)) > 1;
  straggler_news worst{of.second, of.first, slowness::none};
  double most = 0;
  bool slow = false;
  for (std::size_t cause = 0; cause < causes; ++cause) {
    const auto beside = at_most_half(usual(of, cause, now), cause, mine);
    const bool is = is_slow(mine, cause, beside, work);
    count(x, cause, is, seconds);
    slow = slow || is;
    // STRAGGLER-1
    const double more = (mine[cause] - beside.usual) * work;
    if (!is || (!x.named[cause] && !is_to_be_named(x, cause, has_others)))
      continue;
    x.named[cause] = true;
    if (more > most) {
      most = more;
      worst.is = slowness(cause + 1);
      worst.seconds = mine[cause] * work;
      worst.usual = beside.usual * work;
    }
  }
  x.fine = slow ? 0 : x.fine + 1;
  // Slow steps do not change what is usual.
  if (!slow) {
    x.past.push_back(mine);
    if (x.past.size() > rule_.history)
      x.past.pop_front();
  }
  return worst;
}

void stragglers::take_others(const std::vector<other_workers>& others,
                             const std::map<place, times>& now,
                             double work) {
  for (const auto& x : others) {
    auto& at = crowds_[x.stage];
    times longest = {};
    for (std::size_t cause = 0; cause < causes; ++cause) {
      at.now[cause] = x.times[cause];
      for (auto& [seconds, workers] : at.now[cause]) {
        seconds /= work;
        chances_[cause].all += workers;
        longest[cause] = std::max(longest[cause], seconds);
      }
      auto here = at.now[cause];
      for (const auto& [of, mine] : of_stage(now, x.stage))
        here.emplace_back(mine[cause], 1);
      numbers before;
      for (const auto& past : at.past)
        before.insert(before.end(), past[cause].begin(), past[cause].end());
      at.usual[cause] = {std::max(median(std::move(here)), median(before)), spread_of(before)};
    }
    for (std::size_t cause = 0; cause < causes; ++cause) {
      times one = {at.usual[0].usual};
      one[cause] = longest[cause];
      at.hides[cause] = is_slow(one, cause, at_most_half(at.usual[cause], cause, one), work);
    }
  }
}

void stragglers::remember_others(const std::map<place, times>& now) {
  for (auto& [stage, x] : crowds_) {
    auto all = std::move(x.now);
    for (const auto& [of, mine] : of_stage(now, stage))
      if (workers_[of].fine > 0)  // slow steps do not change what is usual
        for (std::size_t cause = 0; cause < causes; ++cause)
          all[cause].emplace_back(mine[cause], 1);
    x.past.push_back(std::move(all));
    if (x.past.size() > rule_.recent)
      x.past.pop_front();
  }
}

void stragglers::judge_unlisted(const std::map<place, times>& now,
                                std::vector<straggler_news>& to) {
  for (auto at = workers_.begin(); at != workers_.end();) {
    auto& [of, x] = *at;
    const auto crowd = crowds_.find(of.first);
    if (crowd == crowds_.end() || now.contains(of)) {
      ++at;
      continue;
    }
    bool may_be_slow = false;
    for (std::size_t cause = 0; cause < causes; ++cause)
      if (x.slow[cause] > 0 && crowd->second.hides[cause])
        may_be_slow = true;
      else
        end_row(x, cause);
    x.fine = may_be_slow ? 0 : x.fine + 1;
    if (x.told != slowness::none && x.fine >= rule_.in_a_row) {
      x.told = slowness::none;
      to.push_back({of.second, of.first, slowness::none});
    }
    const bool is_known_slow = may_be_slow || x.told != slowness::none;
    at = is_known_slow ? std::next(at) : workers_.erase(at);
  }
}

std::vector<straggler_news> stragglers::compare(const std::vector<worker_times>& step,
                                                double work,
                                                const std::vector<other_workers>& others) {
  std::vector<straggler_news> out;
  if (rule_.ratio <= 0 || work <= 0 || step.size() < 2)
    return out;
  for (auto& seen : chances_) {
    seen.slow *= 1 - 1 / rule_.memory;
    seen.all *= 1 - 1 / rule_.memory;
  }
  std::map<place, times> now;
  for (const auto& x : step)
    now[{x.stage, x.replica}] = {x.computing / work, x.redeeming / work, x.awaiting_batches / work};
  all_workers_ = now.size();
  for (const auto& x : others)
    for (const auto& [seconds, workers] : x.times[0])
      all_workers_ += std::size_t(workers);
  take_others(others, now, work);
  for (const auto& [of, unused] : now) {
    auto news = judge(of, now, work);
    auto& x = workers_[of];
    const bool is_over = x.told != slowness::none && x.fine >= rule_.in_a_row;
    if (news.is == x.told || (news.is == slowness::none && !is_over))
      continue;
    x.told = news.is;
    out.push_back(news);
  }
  judge_unlisted(now, out);
  remember_others(now);
  return out;
}

}  // namespace troupe::actors
