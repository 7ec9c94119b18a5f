#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/split.hpp"
#include "kernels/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sample.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/vector-inl.hpp"

#include <hwy/contrib/math/math-inl.h>
// clang-format on

#ifndef TROUPE_KERNELS_CPU_SAMPLE_ONCE
#define TROUPE_KERNELS_CPU_SAMPLE_ONCE
namespace troupe::kernels::cpu {
namespace {

struct candidate {
  double weight;  // probability times a common factor
  float logit;    // decides the rank, because low weights may all be 0
  std::int32_t token;
};

}  // namespace
}  // namespace troupe::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

void weigh(const sample_token<float>& op, candidate* out) {
  const hn::ScalableTag<double> wide;
  const hn::Rebind<float, decltype(wide)> narrow;
  const std::int64_t step = std::int64_t(hn::Lanes(wide));
  const auto top = hn::Set(wide, double(largest(op.logits, op.vocabulary)));
  const auto temperature = hn::Set(wide, double(op.temperature));
  alignas(64) double weight[hn::MaxLanes(wide)];
  for (std::int64_t i = 0; i < op.vocabulary; i += step) {
    const std::int64_t n = std::min(step, op.vocabulary - i);
    const float* from = op.logits + i;
    const auto logits = n == step ? hn::LoadU(narrow, from)
                                  : load_first(narrow, hn::FirstN(narrow, std::size_t(n)), from);
    const auto x = hn::Div(hn::Sub(hn::PromoteTo(wide, logits), top), temperature);
    hn::Store(hn::Exp(wide, x), wide, weight);
    for (std::int64_t k = 0; k < n; ++k)
      out[i + k] = {weight[k], from[k], std::int32_t(i + k)};
  }
}

float largest_logit(const float* logits, std::int64_t n) {
  return largest(logits, n);
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {
namespace {

HWY_EXPORT(weigh);
HWY_EXPORT(largest_logit);

bool ranks_before(const candidate& a, const candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

struct prefix {
  std::int64_t index;
  double through;  // cumulative weight by rank, including `index`
};

double total(const candidate* c, std::int64_t begin, std::int64_t end) {
  double sum = 0;
  for (std::int64_t i = begin; i < end; ++i)
    sum += c[i].weight;
  return sum;
}

// Finds the first rank at which the cumulative weight exceeds `target`, or the last rank.
// Afterwards c[0 .. index] holds the candidates of those ranks. The first few of 50,000 hold most
// of the weight, so the search partitions off an eighth at a time and sorts only the last 64.
prefix first_exceeding(candidate* c, std::int64_t n, double target) {
  std::int64_t begin = 0, end = n;
  double before = 0;
  while (end - begin > 64) {
    const std::int64_t cut = begin + (end - begin) / 8;
    std::nth_element(c + begin, c + cut, c + end, ranks_before);
    const double weight = total(c, begin, cut);
    if (before + weight > target) {
      end = cut;
    } else {
      before += weight;
      begin = cut;
    }
  }
  std::sort(c + begin, c + end, ranks_before);
  for (; begin + 1 < end && before + c[begin].weight <= target; ++begin)
    before += c[begin].weight;
  return {begin, before + c[begin].weight};
}

}  // namespace

std::size_t scratch(const sample_token<float>& op, int threads) {
  static_assert(sizeof(candidate) == 16, "what the contract declares");
  return workspace_bytes(op, threads);
}

template <class T>
void run(const sample_token<T>& op, const context& in) {
  if (op.top_k == 1) {  // greedy: weights are not needed
    const float top = HWY_DYNAMIC_DISPATCH(largest_logit)(op.logits, op.vocabulary);
    *op.token = std::int32_t(std::find(op.logits, op.logits + op.vocabulary, top) - op.logits);
    return;
  }
  auto* c = scratch_array<candidate>(in, scratch(op, in.threads));
  HWY_DYNAMIC_DISPATCH(weigh)(op, c);
  std::int64_t kept = op.vocabulary;
  if (op.top_k > 0 && op.top_k < kept) {
    std::nth_element(c, c + op.top_k - 1, c + kept, ranks_before);
    kept = op.top_k;
  }
  double sum = total(c, 0, kept);
  if (op.top_p < 1) {
    const prefix last = first_exceeding(c, kept, double(op.top_p) * sum);
    kept = last.index + 1;
    sum = last.through;
  }
  if (op.min_p > 0) {  // the largest weight is 1
    kept = std::partition(
               c, c + kept, [&](const candidate& x) { return x.weight >= double(op.min_p); })
           - c;
    sum = total(c, 0, kept);
  }
  *op.token = c[first_exceeding(c, kept, op.uniform * sum).index].token;
}

template void run(const sample_token<float>&, const context&);

}  // namespace troupe::kernels::cpu
#endif
