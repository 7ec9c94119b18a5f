#include "kernels/reference/reference.hpp"
#include "kernels/reference/scalar.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

namespace troupe::kernels::reference {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// s of a single expert.
double single_score(route_score score, double x) {
  if (score == route_score::sigmoid)
    return sigmoid(x);
  // Below -40, log(1 + e^x) is e^x.
  return x < -40 ? std::exp(x / 2)
                 : std::sqrt(std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))));
}

/// ds/dx.
double single_slope(route_score score, double x) {
  const double s = single_score(score, x);
  if (score == route_score::sigmoid)
    return s * (1 - s);
  return x < -40 ? s / 2 : sigmoid(x) / (2 * s);
}

template <class T>
double log_sum_exp(const T* x, std::int64_t E) {
  const double largest = *std::max_element(x, x + E);
  double sum = 0;
  for (std::int64_t e = 0; e < E; ++e)
    sum += std::exp(double(x[e]) - largest);
  return largest + std::log(sum);
}

/// Keys of a row, without bias.
template <class T>
std::vector<double> keys_of(const route_rules& rules, const T* x, double lse) {
  std::vector<double> out(x, x + rules.E);
  if (!keys_are_logits(rules))
    for (double& key : out)
      key = scores_alone(rules) ? single_score(rules.score, key) : std::exp(key - lse);
  return out;
}

double or_infinity(double key) {
  return std::isnan(key) ? infinity : key;
}

/// The `n` of the given items with the largest keys, largest first, equal ones in the given order.
std::vector<std::int64_t> best(std::vector<std::int64_t> of,
                               const std::vector<double>& keys,
                               std::int64_t n) {
  std::stable_sort(of.begin(), of.end(), [&](std::int64_t a, std::int64_t b) {
    return or_infinity(keys[std::size_t(a)]) > or_infinity(keys[std::size_t(b)]);
  });
  of.resize(std::size_t(n));
  return of;
}

std::vector<std::int64_t> range(std::int64_t begin, std::int64_t n) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(n));
  std::iota(out.begin(), out.end(), begin);
  return out;
}

/// The experts of the best groups, ascending.
std::vector<std::int64_t> allowed(const route_rules& rules, const std::vector<double>& keys) {
  const std::int64_t size = rules.E / rules.groups;
  std::vector<double> group_keys;
  for (std::int64_t g = 0; g < rules.groups; ++g) {
    double sum = 0;
    for (const auto e : best(range(g * size, size), keys, rules.group_best))
      sum += or_infinity(keys[std::size_t(e)]);
    group_keys.push_back(sum);
  }
  auto groups = best(range(0, rules.groups), group_keys, rules.group_topk);
  std::sort(groups.begin(), groups.end());
  std::vector<std::int64_t> out;
  for (const auto g : groups)
    for (const auto e : range(g * size, size))
      out.push_back(e);
  return out;
}

/// Weights of the chosen logits, before the scale.
std::vector<double> weights_of(const route_rules& rules, const std::vector<double>& x, double lse) {
  std::vector<double> out;
  if (rules.score == route_score::softmax_of_chosen)
    lse = log_sum_exp(x.data(), rules.k);
  for (const double logit : x)
    out.push_back(scores_alone(rules) ? single_score(rules.score, logit) : std::exp(logit - lse));
  if (scores_alone(rules) && rules.k > 1) {
    const double sum = std::accumulate(out.begin(), out.end(), 0.0) + route_epsilon;
    for (double& weight : out)
      weight /= sum;
  }
  return out;
}

template <class T>
std::vector<double> chosen_of(const T* row, const std::int32_t* chosen, std::int64_t k) {
  std::vector<double> out;
  for (std::int64_t j = 0; j < k; ++j)
    out.push_back(double(row[chosen[j]]));
  return out;
}

/// Probability of an expert over all experts of its row.
template <class Op>
double probability(const Op& op, std::int64_t r, std::int64_t e) {
  const double x = op.logits[r * op.rules.E + e];
  return scores_alone(op.rules) ? single_score(op.rules.score, x) / double(op.total[r])
                                : std::exp(x - double(op.lse[r]));
}

}  // namespace

template <class T>
void run(const route<T>& op) {
  const std::int64_t E = op.rules.E, k = op.rules.k;
  for (std::int64_t r = 0; r < op.R; ++r) {
    const T* x = op.logits + r * E;
    std::int32_t* chosen = op.chosen + r * k;
    const double lse = log_sum_exp(x, E);
    auto keys = keys_of(op.rules, x, lse);
    for (std::int64_t e = 0; e < E && op.bias; ++e)
      keys[std::size_t(e)] += double(op.bias[e]);
    if (op.given)
      std::copy_n(op.given + r * k, k, chosen);
    else if (op.round_robin)
      for (std::int64_t j = 0; j < k; ++j)
        chosen[j] = std::int32_t(((op.first_row + r) * k + j) % E);
    else
      std::ranges::copy(best(allowed(op.rules, keys), keys, k), chosen);

    if (op.lse)
      op.lse[r] = T(lse);
    if (op.total) {
      double sum = route_epsilon;
      for (std::int64_t e = 0; e < E; ++e)
        sum += single_score(op.rules.score, double(x[e]));
      op.total[r] = T(sum);
    }
    if (op.weights) {
      const auto weights = weights_of(op.rules, chosen_of(x, chosen, k), lse);
      for (std::int64_t j = 0; j < k; ++j)
        op.weights[r * k + j] = T(weights[std::size_t(j)] * double(op.rules.scale));
    }
    if (op.cutoff) {
      double cutoff = -infinity;
      for (std::int64_t e = 0; e < E; ++e)
        if (std::find(chosen, chosen + k, e) == chosen + k)
          cutoff = std::max(cutoff, or_infinity(keys[std::size_t(e)]));
      op.cutoff[r] = T(cutoff);
    }
  }
}

template <class T>
void run(const route_backward<T>& op) {
  const route_rules& rules = op.rules;
  const std::int64_t E = rules.E, k = rules.k;
  for (std::int64_t r = 0; r < op.R; ++r) {
    const T* x = op.logits + r * E;
    const std::int32_t* chosen = op.chosen + r * k;
    // Gradients with respect to logits, and to scores.
    std::vector<double> dx(static_cast<std::size_t>(E)), ds(dx);
    if (op.dweights) {
      const auto weights = weights_of(rules, chosen_of(x, chosen, k), double(op.lse[r]));
      const T* dweights = op.dweights + r * k;
      double along = 0, sum = route_epsilon;
      for (std::int64_t j = 0; j < k; ++j) {
        along += weights[std::size_t(j)] * double(dweights[j]);
        if (scores_alone(rules))
          sum += single_score(rules.score, double(x[chosen[j]]));
      }
      for (std::int64_t j = 0; j < k; ++j) {
        const double dy = double(dweights[j]) * double(rules.scale);
        const double away = dy - along * double(rules.scale);
        const auto e = std::size_t(chosen[j]);
        if (scores_alone(rules))
          ds[e] += k > 1 ? away / sum : dy;
        else if (rules.score == route_score::softmax_of_chosen)
          dx[e] += weights[std::size_t(j)] * away;
        else
          dx[e] += weights[std::size_t(j)] * dy;
      }
      if (rules.score == route_score::softmax)
        for (std::int64_t e = 0; e < E; ++e)
          dx[std::size_t(e)] -= probability(op, r, e) * along * double(rules.scale);
    }
    if (op.dprobabilities) {
      const T* slope = op.dprobabilities + (op.first_row + r) / op.T_ * E;
      double along = 0;
      for (std::int64_t e = 0; e < E; ++e)
        along += probability(op, r, e) * double(slope[e]);
      for (std::int64_t e = 0; e < E; ++e) {
        const double away = double(slope[e]) - along;
        if (scores_alone(rules))
          ds[std::size_t(e)] += away / double(op.total[r]);
        else
          dx[std::size_t(e)] += probability(op, r, e) * away;
      }
    }
    for (std::int64_t e = 0; e < E; ++e) {
      double sum = dx[std::size_t(e)];
      if (scores_alone(rules))
        sum += ds[std::size_t(e)] * single_slope(rules.score, double(x[e]));
      if (op.dsquare != 0)
        sum += 2 * op.dsquare * double(op.lse[r]) * std::exp(double(x[e]) - double(op.lse[r]));
      op.dlogits[r * E + e] = T(sum);
    }
  }
}

template <class T>
void run(const route_sums<T>& op) {
  const std::int64_t E = op.rules.E, k = op.rules.k;
  std::fill_n(op.counts, op.S * E, 0);
  for (std::int64_t i = 0; i < op.R * k; ++i)
    ++op.counts[(op.first_row + i / k) / op.T_ * E + op.chosen[i]];
  if (!op.sums)
    return;
  std::fill_n(op.sums, op.S * E + 1, 0);
  for (std::int64_t r = 0; r < op.R; ++r) {
    for (std::int64_t e = 0; e < E; ++e)
      op.sums[(op.first_row + r) / op.T_ * E + e] += probability(op, r, e);
    op.sums[op.S * E] += double(op.lse[r]) * double(op.lse[r]);
  }
}

template <class T>
void run(const route_losses<T>& op) {
  const std::int64_t cells = op.S * op.E;
  const double rows = double(op.S * op.T_);
  std::vector<double> sums(std::size_t(cells + 1)), counts(static_cast<std::size_t>(cells));
  for (std::int64_t p = 0; p < op.parts; ++p) {
    for (std::int64_t i = 0; i < cells; ++i)
      counts[std::size_t(i)] += double(op.counts[p * cells + i]);
    for (std::int64_t i = 0; i <= cells; ++i)
      sums[std::size_t(i)] += op.sums[p * (cells + 1) + i];
  }
  // Fraction of the rows that chose expert e: of all, of sequence s, or of the micro-batch.
  const auto fraction = [&](std::int64_t s, std::int64_t e) {
    if (op.counts_of_all)
      return double(op.counts_of_all[e]) / op.rows_of_all;
    if (!op.merged)
      return counts[std::size_t(s * op.E + e)] / double(op.T_);
    double sum = 0;
    for (std::int64_t of = 0; of < op.S; ++of)
      sum += counts[std::size_t(of * op.E + e)];
    return sum / rows;
  };
  const double factor = double(op.E) / double(op.k);
  double balance = 0;
  for (std::int64_t s = 0; s < op.S; ++s)
    for (std::int64_t e = 0; e < op.E; ++e) {
      const std::int64_t i = s * op.E + e;
      const double share = factor * fraction(s, e);
      balance += sums[std::size_t(i)] * share;
      if (op.dprobabilities)
        op.dprobabilities[i] = T((op.accumulates ? double(op.dprobabilities[i]) : 0)
                                 + double(T(op.dmean * share / rows)));
    }
  if (op.balance) {
    op.balance[0] = balance;
    op.balance[1] = rows;
  }
  if (op.z) {
    op.z[0] = sums[std::size_t(cells)];
    op.z[1] = rows;
  }
}

template <class T>
void run(const expert_quantile<T>& op) {
  const std::int64_t E = op.rules.E, rank = op.R * op.rules.k / E;
  std::vector<std::vector<double>> margins(static_cast<std::size_t>(E));
  for (std::int64_t r = 0; r < op.R; ++r) {
    const auto keys = keys_of(op.rules, op.logits + r * E, double(op.lse[r]));
    for (std::int64_t e = 0; e < E; ++e)
      margins[std::size_t(e)].push_back(or_infinity(keys[std::size_t(e)] - double(op.cutoff[r])));
  }
  for (std::int64_t e = 0; e < E; ++e) {
    auto& of = margins[std::size_t(e)];
    std::sort(of.begin(), of.end(), std::greater());
    op.bias[e] = of.empty() ? T(0.0) : T(-of[std::size_t(rank)]);
  }
}

#define TROUPE_INSTANTIATE(T)                  \
  template void run(const route<T>&);          \
  template void run(const route_backward<T>&); \
  template void run(const route_sums<T>&);     \
  template void run(const route_losses<T>&);   \
  template void run(const expert_quantile<T>&);
TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(double)
#undef TROUPE_INSTANTIATE

}  // namespace troupe::kernels::reference
