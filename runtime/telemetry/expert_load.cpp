#include "runtime/telemetry/expert_load.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

namespace troupe::runtime {
namespace {

/// More rows than the ranks of a replica have in a step. Sums over all replicas stay below 2^63.
constexpr std::int64_t most_rows = std::int64_t{1} << 44;

bool is_count(std::int64_t x) {
  return x >= 0 && x <= most_rows;
}

/// 1 if all experts have as many rows, up to rounding; 0 if one has all.
double entropy_of(const std::vector<std::int64_t>& counts) {
  const auto all = std::accumulate(counts.begin(), counts.end(), 0.0);
  double sum = 0;
  for (const auto n : counts)
    if (n > 0)
      sum -= double(n) / all * std::log(double(n) / all);
  return counts.size() > 1 ? std::min(1.0, sum / std::log(double(counts.size()))) : 1;
}

}  // namespace

void add_to(std::vector<expert_rows>& to, const expert_rows& x) {
  ensure(!x.counts.empty() && is_count(x.dropped) && std::ranges::all_of(x.counts, is_count),
         "STEP-12: counts of experts are numbers of rows");
  const auto at = std::ranges::lower_bound(to, x.unit, {}, &expert_rows::unit);
  if (at == to.end() || at->unit != x.unit) {
    to.insert(at, x);
    return;
  }
  ensure(at->counts.size() == x.counts.size(),
         "STEP-12: all ranks count the rows of the same experts");
  at->dropped += x.dropped;
  std::ranges::transform(at->counts, x.counts, at->counts.begin(), std::plus());
}

void add_to(std::vector<expert_rows>& to, const std::vector<expert_rows>& all) {
  for (const auto& x : all)
    add_to(to, x);
}

expert_load load_of(const expert_rows& x, std::string layer, bool with_counts) {
  const auto [least, most] = std::ranges::minmax(x.counts);
  return {.layer = std::move(layer),
          .most = most,
          .least = least,
          .dropped = x.dropped,
          .entropy = entropy_of(x.counts),
          .counts = with_counts ? x.counts : std::vector<std::int64_t>()};
}

expert_load load_of(const std::vector<expert_load>& layers) {
  auto out = layers.front();
  out.layer.clear();
  out.counts.clear();
  for (auto x = layers.begin() + 1; x != layers.end(); ++x) {
    out.most = std::max(out.most, x->most);
    out.least = std::min(out.least, x->least);
    out.entropy = std::min(out.entropy, x->entropy);
    out.dropped += x->dropped;
  }
  return out;
}

}  // namespace troupe::runtime
