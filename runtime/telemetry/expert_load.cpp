#include "runtime/telemetry/expert_load.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

namespace troupe::runtime {
namespace {

/// 1 if all experts have as many rows, 0 if one has all.
double entropy_of(const std::vector<std::int64_t>& counts) {
  const auto all = double(std::reduce(counts.begin(), counts.end()));
  double sum = 0;
  for (const auto n : counts)
    if (n > 0)
      sum -= double(n) / all * std::log(double(n) / all);
  return counts.size() > 1 ? std::min(1.0, sum / std::log(double(counts.size()))) : 1;
}

}  // namespace

void add_to(std::vector<expert_rows>& to, const expert_rows& x) {
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
