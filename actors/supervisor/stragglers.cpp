#include "actors/supervisor/stragglers.hpp"

#include <algorithm>

namespace troupe::actors {
namespace {

constexpr double unknown = -1;

double median(std::vector<double> x) {
  if (x.empty())
    return unknown;
  const auto middle = x.begin() + std::ptrdiff_t(x.size() / 2);
  std::nth_element(x.begin(), middle, x.end());
  return *middle;
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

double stragglers::usual(const place& of,
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
  if (!here.empty())  // one slow moment of one other says little
    return std::max(median(here), median(before));
  const auto found = workers_.find(of);
  if (found == workers_.end() || found->second.past.size() < rule_.known)
    return unknown;
  for (const auto& x : found->second.past)
    before.push_back(x[cause]);
  return median(before);
}

straggler_news stragglers::judge(const place& of, const std::map<place, times>& now, double work) {
  auto& x = workers_[of];
  const auto& mine = now.at(of);
  straggler_news worst{of.second, of.first, slowness::none};
  double most = 0;
  bool slow = false;
  for (std::size_t cause = 0; cause < causes; ++cause) {
    auto reference = usual(of, cause, now);
    if (cause > 0) {  // who computes for longer than it waits is not held up
      const double half = mine[0] / 2;
      reference = reference < 0 ? half : std::min(reference, half);
    }
    const double more = (mine[cause] - reference) * work;
    const bool is_slow = reference >= 0 && mine[cause] > rule_.ratio * reference
                         && more > std::max(rule_.least, rule_.share * mine[0] * work);
    x.slow[cause] = is_slow ? x.slow[cause] + 1 : 0;
    slow = slow || is_slow;
    // STRAGGLER-1
    if (x.slow[cause] >= rule_.in_a_row && more > most) {
      most = more;
      worst.is = slowness(cause + 1);
      worst.seconds = mine[cause] * work;
      worst.usual = reference * work;
    }
  }
  x.fine = slow ? 0 : x.fine + 1;
  // Of a slow step nobody learns what is usual.
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
  if (rule_.ratio <= 0 || work <= 0)
    return out;
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
