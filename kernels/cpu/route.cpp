#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/split.hpp"
#include "kernels/cpu/targets.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/route.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/vector-inl.hpp"

#include <hwy/contrib/math/math-inl.h>
// clang-format on

#ifndef TROUPE_KERNELS_CPU_ROUTE_ONCE
#define TROUPE_KERNELS_CPU_ROUTE_ONCE
namespace troupe::kernels::cpu {
namespace {

double or_infinity(double key) {
  return std::isnan(key) ? std::numeric_limits<double>::infinity() : key;
}

/// Inserts items [begin, end) into a list of the `most` best, largest key first, which has n. Items
/// come in ascending order, so equal keys rank by item. Returns the new length.
std::int64_t insert_best(const double* keys,
                         std::int64_t begin,
                         std::int64_t end,
                         std::int64_t most,
                         std::int32_t* list,
                         std::int64_t n) {
  for (std::int64_t e = begin; e < end; ++e) {
    if (n == most && !(keys[e] > keys[list[n - 1]]))
      continue;
    std::int64_t at = n < most ? n++ : n - 1;
    for (; at > 0 && keys[e] > keys[list[at - 1]]; --at)
      list[at] = list[at - 1];
    list[at] = std::int32_t(e);
  }
  return n;
}

void choose(const route_rules& rules, const double* keys, std::int32_t* chosen) {
  if (rules.groups == 1) {
    insert_best(keys, 0, rules.E, rules.k, chosen, 0);
    return;
  }
  const std::int64_t size = rules.E / rules.groups;
  double group_keys[most_experts];
  std::int32_t list[most_experts];
  for (std::int64_t g = 0; g < rules.groups; ++g) {
    insert_best(keys, g * size, (g + 1) * size, rules.group_best, list, 0);
    double sum = 0;
    for (std::int64_t i = 0; i < rules.group_best; ++i)
      sum += keys[list[i]];
    group_keys[g] = or_infinity(sum);
  }
  insert_best(group_keys, 0, rules.groups, rules.group_topk, list, 0);
  std::sort(list, list + rules.group_topk);
  std::int64_t n = 0;
  for (std::int64_t i = 0; i < rules.group_topk; ++i)
    n = insert_best(keys, list[i] * size, (list[i] + 1) * size, rules.k, chosen, n);
}

}  // namespace
}  // namespace troupe::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

/// sqrt(log(1 + e^x)). Below -16, log(1 + e^x) is e^x in float.
HWY_INLINE vec sqrt_softplus(vec x) {
  const vec above = hn::Add(hn::Max(x, hn::Zero(d)), hn::Log1p(d, exp(hn::Neg(hn::Abs(x)))));
  const vec below = exp(hn::Mul(x, hn::Set(d, 0.5f)));
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, -16.0f)), below, hn::Sqrt(above));
}

HWY_INLINE vec single_score(route_score score, vec x) {
  return score == route_score::sigmoid ? sigmoid(x) : sqrt_softplus(x);
}

/// Derivative of single_score.
HWY_INLINE vec single_slope(route_score score, vec x) {
  vec rest;
  const vec s = sigmoid(x, rest);
  if (score == route_score::sigmoid)
    return hn::Mul(s, rest);
  const vec root = sqrt_softplus(x), half = hn::Set(d, 0.5f);
  return hn::Mul(half, hn::IfThenElse(hn::Lt(x, hn::Set(d, -16.0f)), root, hn::Div(s, root)));
}

/// With a NaN logit `largest` may be any number; the terms and so the sum are NaN anyway. This
/// holds for weights and gradients, too.
float row_lse(const float* x, std::int64_t E) {
  const float top = largest(x, E);
  const vec middle = hn::Set(d, top);
  const float total = sum(E, [=](std::int64_t i, auto step) HWY_ATTR {
    return exp(hn::Sub(step.load(x + i), middle));
  });
  return float(double(top) + std::log(double(total)));
}

/// Scores of a row: probabilities, or those of single experts.
void row_scores(const route_rules& rules, const float* x, float lse, float* scores) {
  const vec middle = hn::Set(d, lse);
  const route_score score = rules.score;
  if (scores_alone(rules))
    each(rules.E, [=](std::int64_t i, auto step) HWY_ATTR {
      step.store(single_score(score, step.load(x + i)), scores + i);
    });
  else
    each(rules.E, [=](std::int64_t i, auto step) HWY_ATTR {
      step.store(exp(hn::Sub(step.load(x + i), middle)), scores + i);
    });
}

void row_weights(const route_rules& rules,
                 const float* x,
                 const float* scores,
                 const std::int32_t* chosen,
                 float* weights) {
  const std::int64_t k = rules.k;
  const float* from = rules.score == route_score::softmax_of_chosen ? x : scores;
  for (std::int64_t j = 0; j < k; ++j)
    weights[j] = from[chosen[j]];
  const auto add = [=](std::int64_t i, auto step) HWY_ATTR { return step.load(weights + i); };
  float factor = rules.scale;
  if (rules.score == route_score::softmax_of_chosen) {
    const vec top = hn::Set(d, largest(weights, k));
    each(k, [=](std::int64_t i, auto step) HWY_ATTR {
      step.store(exp(hn::Sub(step.load(weights + i), top)), weights + i);
    });
    factor /= sum(k, add);
  } else if (scores_alone(rules) && k > 1) {
    factor /= sum(k, add) + float(route_epsilon);
  }
  for (std::int64_t j = 0; j < k; ++j)
    weights[j] *= factor;
}

void route_rows(const route<float>& op, std::int64_t begin, std::int64_t end) {
  const route_rules& rules = op.rules;
  const std::int64_t E = rules.E, k = rules.k;
  alignas(64) float scores[most_experts];
  double keys[most_experts];
  for (std::int64_t r = begin; r < end; ++r) {
    const float* x = op.logits + r * E;
    std::int32_t* chosen = op.chosen + r * k;
    const float lse = op.lse || rules.score == route_score::softmax ? row_lse(x, E) : 0;
    if (rules.score != route_score::softmax_of_chosen)
      row_scores(rules, x, lse, scores);
    const float* of_keys = keys_are_logits(rules) ? x : scores;
    for (std::int64_t e = 0; e < E; ++e)
      keys[e] = or_infinity(double(of_keys[e]) + (op.bias ? double(op.bias[e]) : 0));
    if (op.given)
      std::copy_n(op.given + r * k, k, chosen);
    else if (op.round_robin)
      for (std::int64_t j = 0; j < k; ++j)
        chosen[j] = std::int32_t(((op.first_row + r) * k + j) % E);
    else
      choose(rules, keys, chosen);

    if (op.lse)
      op.lse[r] = lse;
    if (op.total) {
      const float* from = scores;
      op.total[r] = float(route_epsilon) + sum(E, [=](std::int64_t i, auto step) HWY_ATTR {
                      return step.load(from + i);
                    });
    }
    if (op.weights)
      row_weights(rules, x, scores, chosen, op.weights + r * k);
    if (op.cutoff) {
      constexpr double lowest = -std::numeric_limits<double>::infinity();
      for (std::int64_t j = 0; j < k; ++j)
        keys[chosen[j]] = lowest;
      op.cutoff[r] = float(*std::max_element(keys, keys + E));
    }
  }
}

/// Adds the gradients with respect to the chosen experts' scores or logits. Returns the sum of
/// gradient times probability, if the score is softmax.
float scatter_gradients(const route_backward<float>& op, std::int64_t r, float* to) {
  const route_rules& rules = op.rules;
  const std::int64_t k = rules.k;
  const float* x = op.logits + r * rules.E;
  const std::int32_t* chosen = op.chosen + r * k;
  const float* dweights = op.dweights + r * k;
  alignas(64) float weights[most_experts];
  double total = 0, along = 0;
  for (std::int64_t j = 0; j < k; ++j)
    weights[j] = x[chosen[j]];
  if (scores_alone(rules)) {
    each(k, [&](std::int64_t i, auto step) HWY_ATTR {
      step.store(single_score(rules.score, step.load(weights + i)), weights + i);
    });
    total = route_epsilon;
  } else {
    const vec from
        = hn::Set(d, rules.score == route_score::softmax ? op.lse[r] : largest(weights, k));
    each(k, [&](std::int64_t i, auto step) HWY_ATTR {
      step.store(exp(hn::Sub(step.load(weights + i), from)), weights + i);
    });
  }
  for (std::int64_t j = 0; j < k; ++j) {
    total += double(weights[j]);
    along += double(weights[j]) * double(dweights[j]);
  }
  const double scale = double(rules.scale);
  for (std::int64_t j = 0; j < k; ++j) {
    const double dy = double(dweights[j]), away = dy - along / total;
    float& sum = to[chosen[j]];
    if (rules.score == route_score::softmax_of_chosen)
      sum = float(scale * double(weights[j]) / total * away);
    else if (scores_alone(rules) && k > 1)
      sum = float(scale * away / total);
    else
      sum = float(scale * dy);
  }
  return rules.score == route_score::softmax ? float(scale * along) : 0;
}

void route_gradient_rows(const route_backward<float>& op, std::int64_t begin, std::int64_t end) {
  const route_rules& rules = op.rules;
  const std::int64_t E = rules.E;
  const bool alone = scores_alone(rules);
  const bool of_chosen = rules.score == route_score::softmax_of_chosen;
  const route_score score = rules.score;
  alignas(64) float of_choice[most_experts];  // gradients of the chosen experts, else 0
  const float* added = of_choice;
  for (std::int64_t r = begin; r < end; ++r) {
    const float* x = op.logits + r * E;
    float* dx = op.dlogits + r * E;
    const float* slope
        = op.dprobabilities ? op.dprobabilities + (op.first_row + r) / op.T_ * E : nullptr;
    const vec lse = hn::Set(d, op.lse[r]);
    const vec share = hn::Set(d, alone ? 1 / op.total[r] : 1.0f);
    const auto probability = [=](std::int64_t i, auto step) HWY_ATTR {
      const vec here = step.load(x + i);
      return alone ? hn::Mul(single_score(score, here), share) : exp(hn::Sub(here, lse));
    };
    std::fill_n(of_choice, E, 0.0f);
    float along = op.dweights ? scatter_gradients(op, r, of_choice) : 0;
    if (slope)
      along += sum(E, [=](std::int64_t i, auto step) HWY_ATTR {
        return hn::Mul(probability(i, step), step.load(slope + i));
      });
    const vec middle = hn::Set(d, along);
    const vec of_square = hn::Set(d, float(2 * op.dsquare * double(op.lse[r])));
    const bool squares = op.dsquare != 0;
    each(E, [=](std::int64_t i, auto step) HWY_ATTR {
      const vec here = step.load(x + i), chosen = step.load(added + i);
      vec inner = slope ? hn::Sub(step.load(slope + i), middle) : hn::Neg(middle);
      vec out;
      if (alone) {
        inner = hn::MulAdd(inner, share, chosen);
        out = hn::Mul(inner, single_slope(score, here));
        if (squares)
          out = hn::MulAdd(of_square, exp(hn::Sub(here, lse)), out);
      } else {
        if (!of_chosen)
          inner = hn::Add(inner, chosen);
        if (squares)
          inner = hn::Add(inner, of_square);
        out = hn::Mul(inner, exp(hn::Sub(here, lse)));
        if (of_chosen)
          out = hn::Add(out, chosen);
      }
      step.store(out, dx + i);
    });
  }
}

/// Sums of the probabilities of columns [begin, end), in row order.
void route_sum_columns(const route_sums<float>& op, std::int64_t begin, std::int64_t end) {
  const std::int64_t E = op.rules.E, n = end - begin;
  const bool alone = scores_alone(op.rules);
  alignas(64) float scores[most_experts];
  route_rules here = op.rules;
  here.E = n;
  for (std::int64_t s = 0; s < op.S; ++s)
    std::fill_n(op.sums + s * E + begin, n, 0.0);
  for (std::int64_t r = 0; r < op.R; ++r) {
    row_scores(here, op.logits + r * E + begin, op.lse[r], scores);
    double* to = op.sums + (op.first_row + r) / op.T_ * E + begin;
    const double share = alone ? 1 / double(op.total[r]) : 1;
    for (std::int64_t i = 0; i < n; ++i)
      to[i] += double(scores[i]) * share;
  }
}

/// Writes the margins of rows [begin, end), expert by expert.
void margin_rows(const expert_quantile<float>& op,
                 float* margins,
                 std::int64_t begin,
                 std::int64_t end) {
  const std::int64_t E = op.rules.E;
  alignas(64) float scores[most_experts];
  for (std::int64_t r = begin; r < end; ++r) {
    const float* keys = op.logits + r * E;
    if (!keys_are_logits(op.rules)) {
      row_scores(op.rules, keys, op.lse[r], scores);
      keys = scores;
    }
    for (std::int64_t e = 0; e < E; ++e)
      margins[e * op.R + r] = float(or_infinity(double(keys[e]) - double(op.cutoff[r])));
  }
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {
namespace {

HWY_EXPORT(route_rows);
HWY_EXPORT(route_gradient_rows);
HWY_EXPORT(route_sum_columns);
HWY_EXPORT(margin_rows);

}  // namespace

template <class T>
void run(const route<T>& op, const context& in) {
  split(
      in.threads, op.R, rows_worth_a_thread(op.rules.E), [&](std::int64_t begin, std::int64_t end) {
        HWY_DYNAMIC_DISPATCH(route_rows)(op, begin, end);
      });
}

template <class T>
void run(const route_backward<T>& op, const context& in) {
  split(
      in.threads, op.R, rows_worth_a_thread(op.rules.E), [&](std::int64_t begin, std::int64_t end) {
        HWY_DYNAMIC_DISPATCH(route_gradient_rows)(op, begin, end);
      });
}

// Threads share the columns, so each sum is in row order.
template <class T>
void run(const route_sums<T>& op, const context& in) {
  const std::int64_t E = op.rules.E, k = op.rules.k;
  std::fill_n(op.counts, op.S * E, 0);
  for (std::int64_t i = 0; i < op.R * k; ++i)
    ++op.counts[(op.first_row + i / k) / op.T_ * E + op.chosen[i]];
  if (!op.sums)
    return;
  const std::int64_t grain = (rows_worth_a_thread(op.R) + 15) / 16 * 16;
  split(in.threads, E, grain, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(route_sum_columns)(op, begin, end);
  });
  double squares = 0;
  for (std::int64_t r = 0; r < op.R; ++r)
    squares += double(op.lse[r]) * double(op.lse[r]);
  op.sums[op.S * E] = squares;
}

template <class T>
void run(const route_losses<T>& op, const context&) {
  const std::int64_t cells = op.S * op.E;
  const double rows = double(op.S * op.T_), factor = double(op.E) / double(op.k);
  double balance = 0, squares = 0;
  for (std::int64_t e = 0; e < op.E; ++e) {
    const auto chosen_in = [&](std::int64_t first, std::int64_t last) {
      std::uint64_t sum = 0;
      for (std::int64_t p = 0; p < op.parts; ++p)
        for (std::int64_t s = first; s < last; ++s)
          sum += op.counts[p * cells + s * op.E + e];
      return double(sum);
    };
    double fraction = 0;
    if (op.counts_of_all)
      fraction = double(op.counts_of_all[e]) / op.rows_of_all;
    else if (op.merged)
      fraction = chosen_in(0, op.S) / rows;
    for (std::int64_t s = 0; s < op.S; ++s) {
      const std::int64_t i = s * op.E + e;
      double sum = 0;
      for (std::int64_t p = 0; p < op.parts; ++p)
        sum += op.sums[p * (cells + 1) + i];
      if (!op.merged && !op.counts_of_all)
        fraction = chosen_in(s, s + 1) / double(op.T_);
      balance += sum * (factor * fraction);
      if (op.dprobabilities)
        op.dprobabilities[i] = (op.accumulates ? op.dprobabilities[i] : 0)
                               + float(op.dmean * (factor * fraction) / rows);
    }
  }
  for (std::int64_t p = 0; p < op.parts; ++p)
    squares += op.sums[p * (cells + 1) + cells];
  if (op.balance) {
    op.balance[0] = balance;
    op.balance[1] = rows;
  }
  if (op.z) {
    op.z[0] = squares;
    op.z[1] = rows;
  }
}

std::size_t scratch(const expert_quantile<float>& op, int) {
  return sizeof(float) * std::size_t(op.R * op.rules.E);
}

template <class T>
void run(const expert_quantile<T>& op, const context& in) {
  const std::int64_t R = op.R, E = op.rules.E, rank = R * op.rules.k / E;
  auto* const margins = scratch_array<float>(in, scratch(op, in.threads));
  split(in.threads, R, rows_worth_a_thread(E), [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(margin_rows)(op, margins, begin, end);
  });
  split(in.threads, E, rows_worth_a_thread(R), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t e = begin; e < end; ++e) {
      float* of = margins + e * R;
      if (R > 0)
        std::nth_element(of, of + rank, of + R, std::greater());
      op.bias[e] = R > 0 ? -of[rank] : 0;
    }
  });
}

template void run(const route<float>&, const context&);
template void run(const route_backward<float>&, const context&);
template void run(const route_sums<float>&, const context&);
template void run(const route_losses<float>&, const context&);
template void run(const expert_quantile<float>&, const context&);

}  // namespace troupe::kernels::cpu
#endif
