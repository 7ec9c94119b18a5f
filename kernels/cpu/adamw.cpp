#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/grains.hpp"
#include "kernels/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/adamw.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/fingerprint-inl.hpp"
#include "kernels/cpu/vector-inl.hpp"

#include <hwy/cache_control.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

/// Elements per block of adamw_blocks: three arrays of this size fit in the L1 cache.
constexpr std::int64_t adamw_block = 1024;

/// The settings of an update as vectors.
struct adamw_numbers {
  vec gradient_scale, beta1, beta2, rest1, rest2, eps, decay, step1, inverse2;

  explicit adamw_numbers(const adamw<float>& op)
      : gradient_scale(hn::Set(d, op.gradient_scale)),
        beta1(hn::Set(d, op.beta1)),
        beta2(hn::Set(d, op.beta2)),
        rest1(hn::Set(d, 1 - op.beta1)),
        rest2(hn::Set(d, 1 - op.beta2)),
        eps(hn::Set(d, op.eps)),
        decay(hn::Set(d, op.rate * op.weight_decay)),
        step1(hn::Set(d, op.rate / op.correction1)),
        inverse2(hn::Set(d, 1 / op.correction2)) {}

  HWY_INLINE void update(vec& x, vec& m, vec& v, vec dx) const {
    const vec g = hn::Mul(dx, gradient_scale);
    m = hn::MulAdd(beta1, m, hn::Mul(rest1, g));
    v = hn::MulAdd(beta2, v, hn::Mul(rest2, hn::Mul(g, g)));
    const vec root = hn::Add(hn::Sqrt(hn::Mul(v, inverse2)), eps);
    x = hn::Sub(x, hn::MulAdd(decay, x, hn::Div(hn::Mul(step1, m), root)));
  }
};

// T is the type of the rounded weights. The vectors are captured by value, because the compiler
// must assume that x aliases op.
template <class T>
void adamw_range(const adamw<float>& op, std::int64_t begin, std::int64_t end) {
  float *x = op.x + begin, *m = op.m + begin, *v = op.v + begin;
  const auto old = source_of(op.from, op.x, op.m, op.v);
  const float *x_old = old.x + begin, *m_old = old.m + begin, *v_old = old.v + begin;
  const float* dx = op.dx + begin;
  T* rounded = op.rounded ? static_cast<T*>(op.rounded) + begin : nullptr;
  const adamw_numbers by(op);
  each(end - begin, [=](std::int64_t i, auto step) HWY_ATTR {
    vec x1 = step.load(x_old + i), m1 = step.load(m_old + i), v1 = step.load(v_old + i);
    by.update(x1, m1, v1, step.load(dx + i));
    step.store(m1, m + i);
    step.store(v1, v + i);
    step.store(x1, x + i);
    if (rounded)
      step.store(x1, rounded + i);
  });
}

/// Stores a whole vector past the caches, so the processor does not first read the overwritten
/// memory.
HWY_INLINE void store_past_caches(whole, vec x, float* to) {
  hn::Stream(x, d, to);
}
HWY_INLINE void store_past_caches(const partial& step, vec x, float* to) {
  step.store(x, to);
}

/// adamw_range with stores past the caches; requires x, m and v aligned to whole vectors. Copies
/// the results to `block` (3, adamw_block), where the fingerprints read them.
template <class T>
void adamw_past_caches(const adamw<float>& op, std::int64_t begin, std::int64_t end, float* block) {
  float *x = op.x + begin, *m = op.m + begin, *v = op.v + begin;
  const float *x_old = op.from.x + begin, *m_old = op.from.m + begin, *v_old = op.from.v + begin;
  const float* dx = op.dx + begin;
  T* rounded = op.rounded ? static_cast<T*>(op.rounded) + begin : nullptr;
  const adamw_numbers by(op);
  each(end - begin, [=](std::int64_t i, auto step) HWY_ATTR {
    vec x1 = step.load(x_old + i), m1 = step.load(m_old + i), v1 = step.load(v_old + i);
    by.update(x1, m1, v1, step.load(dx + i));
    store_past_caches(step, x1, x + i);
    store_past_caches(step, m1, m + i);
    store_past_caches(step, v1, v + i);
    step.store(x1, block + i);
    step.store(m1, block + adamw_block + i);
    step.store(v1, block + 2 * adamw_block + i);
    if (rounded)
      step.store(x1, rounded + i);
  });
}

/// Updates block by block, so that fingerprints read the results from the L1 cache. `keys` has the
/// keys of x, m and v for the grain that begins at `begin`; their fingerprints are added to `sums`
/// (3, 2). Null: no fingerprints.
template <class T>
void adamw_blocks(const adamw<float>& op,
                  std::int64_t begin,
                  std::int64_t end,
                  bool past_caches,
                  const std::uint64_t* const* keys,
                  std::uint64_t (*sums)[2]) {
  HWY_ALIGN float block[3 * adamw_block];
  const auto is_aligned = [begin](const float* p) {
    return reinterpret_cast<std::uintptr_t>(p + begin) % sizeof(vec) == 0;
  };
  past_caches = past_caches && is_aligned(op.x) && is_aligned(op.m) && is_aligned(op.v);
  for (std::int64_t at = begin; at < end; at += adamw_block) {
    const auto n = std::min(adamw_block, end - at);
    if (past_caches)
      adamw_past_caches<T>(op, at, at + n, block);
    else
      adamw_range<T>(op, at, at + n);
    const float* const written[] = {op.x + at, op.m + at, op.v + at};
    for (int a = 0; keys && a < 3; ++a)
      add_fingerprint(
          past_caches ? block + a * adamw_block : written[a], at - begin, n, *keys[a], sums[a]);
  }
  if (past_caches)
    hwy::FlushStream();
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {

TROUPE_EXPORT(adamw_range);
TROUPE_EXPORT(adamw_blocks);

namespace {

/// True if an out-of-place update of this many elements should bypass the caches. The results (12
/// MiB at this limit) would not stay in cache, and an ordinary store would first read the memory
/// that it overwrites. An in-place update has read that memory already.
bool goes_past_caches(const adamw_source<float>& from, std::int64_t elements) {
  return from.x != nullptr && elements >= std::int64_t{1} << 20;
}

}  // namespace

template <class T>
void run(const adamw<T>& op, const context& in) {
  const bool past_caches = goes_past_caches(op.from, op.n);
  split(in.threads, op.n, elements_worth_a_thread, [&](std::int64_t begin, std::int64_t end) {
    const bool f16_wanted = op.rounded_to == narrow_type::f16;
    if (past_caches && f16_wanted)
      TROUPE_DISPATCH(adamw_blocks, f16)(op, begin, end, true, nullptr, nullptr);
    else if (past_caches)
      TROUPE_DISPATCH(adamw_blocks, bf16)(op, begin, end, true, nullptr, nullptr);
    else if (f16_wanted)
      TROUPE_DISPATCH(adamw_range, f16)(op, begin, end);
    else
      TROUPE_DISPATCH(adamw_range, bf16)(op, begin, end);
  });
}

template <class T>
void run(const adamw_pieces<T>& op, const context& in) {
  if (!op.fingerprints) {
    for (std::int64_t i = 0; i < op.count; ++i)
      run(piece_of(op, i), in);
    return;
  }
  const auto elements = elements_of(op);
  fingerprint_results results(op.fingerprints, 3 * op.count);
  split_grains(in.threads, op, [&](const grain_of_piece& at) {
    const auto& piece = op.pieces[at.piece];
    const auto* const key = piece.keys + at.number;
    const auto grains = grains_in(piece.n, op.grain);
    const std::uint64_t* const keys[] = {key, key + grains, key + 2 * grains};
    const bool past_caches = goes_past_caches(piece.from, elements);
    const auto end = at.begin + at.n;
    std::uint64_t sums[3][2] = {};
    if (op.rounded_to == narrow_type::f16)
      TROUPE_DISPATCH(adamw_blocks, f16)
    (piece_of(op, at.piece), at.begin, end, past_caches, keys, sums);
    else TROUPE_DISPATCH(adamw_blocks, bf16)(
        piece_of(op, at.piece), at.begin, end, past_caches, keys, sums);
    for (int a = 0; a < 3; ++a)
      results.add(3 * at.piece + a, sums[a]);
  });
}

template void run(const adamw<float>&, const context&);
template void run(const adamw_pieces<float>&, const context&);

}  // namespace troupe::kernels::cpu
#endif
