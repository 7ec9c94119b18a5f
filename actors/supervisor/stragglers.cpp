#include "actors/supervisor/stragglers.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe::actors {
namespace {

constexpr double unknown = -1;
/// Keeps the required number of steps finite when most steps are slow.
constexpr double most_by_themselves = 0.9;

double median(std::vector<double> x) {
  if (x.empty())
    return unknown;
  const auto middle = x.begin() + std::ptrdiff_t(x.size() / 2);
  std::nth_element(x.begin(), middle, x.end());
  return *middle;
}

/// Median absolute deviation.
double spread_of(const std::vector<double>& x) {
  if (x.empty())
    return 0;
  const double middle = median(x);
  std::vector<double> far;
  for (const double one : x)
    far.push_back(std::abs(one - middle));
  return median(far);
}

}  // namespace

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
  std::vector<double> here, before;
  for (const auto& [other, at] : now) {
    if (other == of || other.first != of.first)
      continue;
    here.push_back(at[cause]);
    const auto found = workers_.find(other);
    if (found == workers_.end())
      continue;
    const auto& past = found->second.past;
    const auto n = std::min(past.size(), rule_.recent);
    for (auto i = past.size() - n; i < past.size(); ++i)
      before.push_back(past[i][cause]);
  }
  if (!here.empty()) {  // a single moment of one worker says little, so steps before count, too
    const auto most = std::max(median(here), median(before));
    return {most, spread_of(before)};
  }
  const auto found = workers_.find(of);
  if (found == workers_.end() || found->second.past.size() < rule_.known)
    return {};
  for (const auto& x : found->second.past)
    before.push_back(x[cause]);
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

// If p is the chance of a slow step, one of n workers has m of them in a row, from a given step on,
// with probability n p^m.
int stragglers::needed(slowness cause) const {
  const auto& seen = chances_[std::size_t(cause) - 1];
  if (seen.all <= 0 || seen.slow <= 0 || workers_.empty())
    return rule_.in_a_row;
  const double p = std::min(seen.slow / seen.all, most_by_themselves);
  const double steps = std::log(rule_.by_chance / double(workers_.size())) / std::log(p);
  return std::max(rule_.in_a_row, int(std::ceil(steps)));
}

void stragglers::count(known_worker& x, std::size_t cause, bool is_slow, double seconds) {
  auto& seen = chances_[cause];
  seen.all += 1;
  if (is_slow) {
    ++x.slow[cause];
    x.slow_seconds[cause] += seconds;
    return;
  }
  if (!std::exchange(x.named[cause], false))
    seen.slow += x.slow[cause];
  x.slow[cause] = 0;
  x.slow_seconds[cause] = 0;
}

bool stragglers::is_to_be_named(const known_worker& x, std::size_t cause, bool has_others) const {
  return x.slow[cause] >= needed(slowness(cause + 1))
         && (has_others || x.slow_seconds[cause] >= rule_.alone);
}

straggler_news stragglers::judge(const place& of, const std::map<place, times>& now, double work) {
  auto& x = workers_[of];
  const auto& mine = now.at(of);
  const double seconds = (mine[0] + mine[1] + mine[2]) * work;
  const bool has_others = std::any_of(now.begin(), now.end(), [&](const auto& other) {
    return other.first != of && other.first.first == of.first;
  });
  straggler_news worst{of.second, of.first, slowness::none};
  double most = 0;
  bool slow = false;
  for (std::size_t cause = 0; cause < causes; ++cause) {
    auto beside = usual(of, cause, now);
    if (cause > 0) {  // a worker that computes longer than it waits is not held up
      const double half = mine[0] / 2;
      beside.usual = beside.usual < 0 ? half : std::min(beside.usual, half);
    }
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

std::vector<straggler_news> stragglers::compare(const std::vector<worker_times>& step,
                                                double work) {
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
  for (const auto& [of, unused] : now) {
    auto news = judge(of, now, work);
    auto& x = workers_[of];
    const bool is_over = x.told != slowness::none && x.fine >= rule_.in_a_row;
    if (news.is == x.told || (news.is == slowness::none && !is_over))
      continue;
    x.told = news.is;
    out.push_back(news);
  }
  return out;
}

}  // namespace troupe::actors
