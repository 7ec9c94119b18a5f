// The router of a mixture of experts: R rows, E experts, k chosen experts per row.
//
// `route` chooses experts and computes their weights. With s = sigmoid(x) or sqrt(log(1 + e^x)),
// over the chosen experts c of a row of logits x:
//
//   softmax_of_chosen         weight[c] = scale * e^x[c] / sum_{chosen i} e^x[i]
//   softmax                   weight[c] = scale * e^x[c] / sum_{every i} e^x[i]
//   sigmoid, sqrt_softplus    weight[c] = scale * s[c] / (sum_{chosen i} s[i] + 1e-20)      k > 1
//                             weight[c] = scale * s[c]                                      k = 1
//
// The key of an expert is its score (probability or s) plus its bias, or its logit plus its bias
// (`by_logit`). The k largest keys are chosen, largest first. Equal keys rank by expert, lowest
// first. A NaN key ranks as +infinity. So a row with a NaN logit has NaN weights, and the step
// finds it. The bias has no part in the weights: a NaN bias chooses its expert, and weights stay
// finite.
//
// Keys and their sums are doubles, made of scores in T. In float, sigmoids of logits above 17 are
// equal, and probabilities below e^-87 are too. Softmax weights in float have the error of the
// log-sum-exp, which is 8e-6 of the weight for logits near 100.
//
// With groups of E / groups adjacent experts, only experts of the `group_topk` best groups are
// chosen. The key of a group is the sum of its `group_best` largest keys.
//
// `route_sums` sums the probabilities of each expert over the rows of each sequence, and counts the
// chosen experts. The probabilities are the softmax, or s / (sum s + 1e-20). `route_losses`
// computes the losses from these sums. With P = sum of probabilities, n = counts, over the rows of
// a sequence or of the micro-batch:
//
//   balance = E / k * sum_e P[e] / rows * n[e] / rows         z = mean_r lse[r]^2
//
// `route_backward` adds the gradients of the weights and of both losses.
//
// `expert_quantile` and `sinkhorn` (sinkhorn.hpp) compute a bias that balances the choice.
//
// Shazeer et al.: "Outrageously Large Neural Networks", 2017. Fedus, Zoph, Shazeer: "Switch
// Transformers", 2021 (balance). Zoph et al.: "ST-MoE", 2022 (z). DeepSeek-AI: "DeepSeek-V3", 2024
// (groups, bias).

#pragma once

#include "kernels/op/context.hpp"
#include "kernels/op/kinds.hpp"

namespace troupe::kernels {

struct route_rules {
  std::int64_t E;  ///< experts: 1 to most_experts
  std::int64_t k;  ///< chosen experts per row: 1 to E
  route_score score = route_score::softmax_of_chosen;
  bool by_logit = false;        ///< keys of logits; always so for softmax_of_chosen
  std::int64_t groups = 1;      ///< divides E
  std::int64_t group_topk = 1;  ///< at most `groups`; these groups have at least k experts
  std::int64_t group_best = 1;  ///< at most E / groups
  float scale = 1;
};

/// Backends keep the keys of one row in a stack or shared memory of this size.
inline constexpr std::int64_t most_experts = 2048;
inline constexpr double route_epsilon = 1e-20;

constexpr bool keys_are_logits(const route_rules& x) {
  return x.by_logit || x.score == route_score::softmax_of_chosen;
}
/// Scores of single experts, which do not depend on the other logits of the row.
constexpr bool scores_alone(const route_rules& x) {
  return x.score == route_score::sigmoid || x.score == route_score::sqrt_softplus;
}

template <class T>
struct route {
  std::int32_t* chosen;  ///< (R, k) written
  T* weights;            ///< (R, k) written; or null
  T* lse;                ///< (R) written: log sum_e e^x; or null
  T* total;              ///< (R) written: sum_e s + 1e-20, if scores_alone; or null
  T* cutoff;             ///< (R) written: largest key that is not chosen, or -infinity; or null
  const T* logits;       ///< (R, E)
  const T* bias;         ///< (E) or null
  const std::int32_t* given;  ///< (R, k) the choice itself, distinct in a row, in [0, E); or null
  std::int64_t R;
  route_rules rules;
  /// Balances the choice by row number, for benchmarks: choice j of row r is expert
  /// ((first_row + r) * k + j) mod E.
  bool round_robin = false;
  std::int64_t first_row = 0;  ///< index of row 0 in the micro-batch
};

/// dlogits = gradient of sum(weights * dweights) + sum(probabilities * dprobabilities)
///           + dsquare * sum(lse^2).
template <class T>
struct route_backward {
  T* dlogits;                  ///< (R, E) written
  const T* dweights;           ///< (R, k) or null
  const T* dprobabilities;     ///< (S, E) equal for all rows of a sequence; or null
  const T* logits;             ///< (R, E)
  const std::int32_t* chosen;  ///< (R, k)
  const T* lse;                ///< (R)
  const T* total;              ///< (R); null unless scores_alone
  std::int64_t R;
  std::int64_t T_;  ///< rows per sequence
  route_rules rules;
  double dsquare = 0;
  std::int64_t first_row = 0;
};

/// Row r is in sequence (first_row + r) / T_. Other sequences get 0.
template <class T>
struct route_sums {
  double* sums;  ///< (S E + 1) written: probabilities (S, E), then sum_r lse^2; null: counts only
  std::uint64_t* counts;       ///< (S, E) written
  const T* logits;             ///< (R, E); with `sums`
  const std::int32_t* chosen;  ///< (R, k)
  const T* lse;                ///< (R); with `sums`
  const T* total;              ///< (R); null unless scores_alone
  std::int64_t R, S;
  std::int64_t T_;
  route_rules rules;
  std::int64_t first_row = 0;
};

/// Losses of S sequences of T_ rows. The rows may be in several parts, one per rank. Parts are
/// added in order; counts are exact.
///
///   balance = (mean balance, as a sum over rows; rows)      z = (sum_r lse[r]^2; rows)
template <class T>
struct route_losses {
  double* balance;              ///< (2) written, or null
  double* z;                    ///< (2) written, or null
  T* dprobabilities;            ///< (S, E) written or added to: dmean * slope of the mean; or null
  const double* sums;           ///< (parts, S E + 1)
  const std::uint64_t* counts;  ///< (parts, S, E)
  const std::uint64_t* counts_of_all;  ///< (E) counts of `rows_of_all` rows to use instead; or null
  std::int64_t parts, S, E, k;
  std::int64_t T_;
  bool merged = false;  ///< one balance of the micro-batch; else the mean over its sequences
  double rows_of_all = 0;
  double dmean = 0;
  bool accumulates = false;
};

/// The bias with which each expert gets at most a k / E share of the rows, with the cutoffs given:
/// bias[e] = -q, where q is the (R k / E + 1)-th largest of key[r,e] - cutoff[r], keys without
/// bias, division rounded down. A NaN ranks as +infinity. 0 if R = 0. Requires k < E.
template <class T>
struct expert_quantile {
  T* bias;          ///< (E) written
  const T* logits;  ///< (R, E)
  const T* lse;     ///< (R)
  const T* cutoff;  ///< (R)
  std::int64_t R;
  route_rules rules;
};

template <class T>
constexpr std::int64_t flops(const route<T>& op) {
  return 4 * op.R * op.rules.E;
}
template <class T>
constexpr std::int64_t flops(const route_backward<T>& op) {
  return 8 * op.R * op.rules.E;
}
template <class T>
constexpr std::int64_t flops(const route_sums<T>& op) {
  return op.sums ? 4 * op.R * op.rules.E : op.R * op.rules.k;
}
template <class T>
constexpr std::int64_t flops(const route_losses<T>& op) {
  return 4 * op.parts * op.S * op.E;
}
template <class T>
constexpr std::int64_t flops(const expert_quantile<T>& op) {
  return 4 * op.R * op.rules.E;
}
template <class T>
constexpr std::int64_t bytes_moved(const route<T>& op) {
  const std::int64_t of_choice = 4 + (op.weights ? std::int64_t{sizeof(T)} : 0);
  const std::int64_t per_row = (op.lse ? 1 : 0) + (op.total ? 1 : 0) + (op.cutoff ? 1 : 0);
  return op.R * (std::int64_t{sizeof(T)} * (op.rules.E + per_row) + of_choice * op.rules.k)
         + (op.bias ? std::int64_t{sizeof(T)} * op.rules.E : 0)
         + (op.given ? 4 * op.R * op.rules.k : 0);
}
template <class T>
constexpr std::int64_t bytes_moved(const route_backward<T>& op) {
  const std::int64_t of_choice = 4 + (op.dweights ? std::int64_t{sizeof(T)} : 0);
  return op.R
         * (std::int64_t{sizeof(T)} * (2 * op.rules.E + 1 + (op.total ? 1 : 0))
            + of_choice * op.rules.k);
}
template <class T>
constexpr std::int64_t bytes_moved(const route_sums<T>& op) {
  const std::int64_t E = op.rules.E, per_row = op.sums ? E + 1 + (op.total ? 1 : 0) : 0;
  return op.R * (std::int64_t{sizeof(T)} * per_row + 4 * op.rules.k) + 8 * op.S * E
         + (op.sums ? 8 * (op.S * E + 1) : 0);
}
template <class T>
constexpr std::int64_t bytes_moved(const route_losses<T>& op) {
  return 8 * op.parts * (2 * op.S * op.E + 1);
}
template <class T>
constexpr std::int64_t bytes_moved(const expert_quantile<T>& op) {
  return std::int64_t{sizeof(T)} * (op.rules.E * (op.R + 1) + 2 * op.R);
}
}  // namespace troupe::kernels
