// Float vectors: loops with a partial last step, sums in a fixed order, exp and related functions.
// Memory holds float, bf16 or f16; loads convert to float and stores round.
//
// Compiled once per instruction set: sources in this folder include it between targets.hpp and
// HWY_BEFORE_NAMESPACE, like Highway's own -inl headers.

#if defined(TROUPE_KERNELS_CPU_VECTOR_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_VECTOR_INL_HPP
#undef TROUPE_KERNELS_CPU_VECTOR_INL_HPP
#else
#define TROUPE_KERNELS_CPU_VECTOR_INL_HPP
#endif

#include "kernels/op/bf16.hpp"
#include "kernels/op/f16.hpp"

#include <cstdint>
#include <hwy/highway.h>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using tag = hn::ScalableTag<float>;
using vec = hn::Vec<tag>;
constexpr tag d;
constexpr std::int64_t width = hn::MaxLanes(d);

/// 16-bit vectors with as many lanes as a float vector.
using half_tag = hn::Rebind<std::uint16_t, tag>;
using half_vec = hn::Vec<half_tag>;
using bits_tag = hn::RebindToUnsigned<tag>;
using bits_vec = hn::Vec<bits_tag>;

HWY_INLINE vec promoted(half_vec v, bf16) {
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(bits_tag(), v)));
}

/// Rounds like kernels/op/bf16.hpp. The result is in the upper half of each lane; the lower half is
/// garbage. Highway's DemoteTo truncates, and the AVX512_BF16 instruction flushes denormals to
/// zero.
HWY_INLINE bits_vec rounded_bits(vec v) {
  const bits_tag du;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto nearest = hn::Add(hn::Add(bits, hn::Set(du, 0x7fff)), odd);
  const auto nan = hn::IsNaN(v);
  if (HWY_LIKELY(hn::AllFalse(d, nan)))
    return nearest;
  return hn::IfThenElse(hn::RebindMask(du, nan), hn::Or(bits, hn::Set(du, 0x400000)), nearest);
}
HWY_INLINE half_vec rounded(vec v, bf16) {
  const hn::Repartition<std::uint16_t, tag> halves;
  const auto bits = hn::BitCast(halves, rounded_bits(v));
  return hn::LowerHalf(hn::ConcatOdd(halves, bits, bits));
}

// f16 conversion with the F16C instructions, which all AVX2 processors have. They handle denormals
// regardless of the control register. Other processors use the method of kernels/op/f16.hpp,
// because Highway's fallback lacks infinity and truncates.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
template <class D>
HWY_INLINE hn::Vec<D> promoted_f16(D to, hn::Vec<hn::Rebind<std::uint16_t, D>> v) {
  return hn::PromoteTo(to, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), v));
}
HWY_INLINE half_vec rounded(vec v, f16) {
  return hn::BitCast(half_tag(), hn::DemoteTo(hn::Rebind<hwy::float16_t, tag>(), v));
}
#else
template <class D>
HWY_INLINE hn::Vec<D> promoted_f16(D to, hn::Vec<hn::Rebind<std::uint16_t, D>> v) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::PromoteTo(du, v);
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fff));
  const auto moved = hn::ShiftLeft<13>(magnitude);
  const auto normal = hn::Add(moved, hn::Set(du, 0x38000000));
  const auto denormal
      = hn::Sub(hn::BitCast(to, hn::Add(moved, hn::Set(du, 0x38800000))), hn::Set(to, 0x1p-14f));
  auto out
      = hn::IfThenElse(hn::Gt(hn::Set(du, 0x400), magnitude), hn::BitCast(du, denormal), normal);
  out = hn::IfThenElse(
      hn::Gt(magnitude, hn::Set(du, 0x7bff)), hn::Or(moved, hn::Set(du, 0x7f800000)), out);
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000)));
  return hn::BitCast(to, hn::Or(sign, out));
}
HWY_INLINE half_vec rounded(vec v, f16) {
  const bits_tag du;
  const auto bits = hn::BitCast(du, v);
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffff));
  const auto rebased = hn::Sub(magnitude, hn::Set(du, 0x38000000));
  const auto odd = hn::And(hn::ShiftRight<13>(rebased), hn::Set(du, 1));
  auto out = hn::ShiftRight<13>(hn::Add(hn::Add(rebased, hn::Set(du, 0xfff)), odd));
  // Below 2^-14 the adder rounds to multiples of 2^-24.
  const vec beside_half = hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5f));
  out = hn::IfThenElse(hn::Gt(hn::Set(du, 0x38800000), magnitude),
                       hn::Sub(hn::BitCast(du, beside_half), hn::Set(du, 0x3f000000)),
                       out);
  out = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x477fefff)), hn::Set(du, 0x7c00), out);
  const auto kept = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 0x3ff));
  out = hn::IfThenElse(
      hn::Gt(magnitude, hn::Set(du, 0x7f800000)), hn::Or(kept, hn::Set(du, 0x7e00)), out);
  const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000));
  return hn::DemoteTo(half_tag(), hn::BitCast(hn::RebindToSigned<tag>(), hn::Or(sign, out)));
}
#endif
HWY_INLINE vec promoted(half_vec v, f16) {
  return promoted_f16(d, v);
}

/// A loop step over a whole vector.
struct whole {
  HWY_INLINE vec load(const float* p) const { return hn::LoadU(d, p); }
  template <class T>
  HWY_INLINE vec load(const T* p) const {
    return promoted(hn::LoadU(half_tag(), &p->bits), T());
  }
  HWY_INLINE void store(vec v, float* p) const { hn::StoreU(v, d, p); }
  template <class T>
  HWY_INLINE void store(vec v, T* p) const {
    hn::StoreU(rounded(v, T()), half_tag(), &p->bits);
  }
  HWY_INLINE vec or_zero(vec v) const { return v; }
};

/// Loads the lanes of a FirstN mask. Other lanes are zero and their memory is untouched.
template <class D, class M>
HWY_INLINE hn::Vec<D> load_first(D tag_of, M lanes, const hn::TFromD<D>* p) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  constexpr bool masked = HWY_TARGET == HWY_AVX3 || sizeof(hn::TFromD<D>) >= 4;
#else
  constexpr bool masked = false;
#endif
  if constexpr (masked) {
    return hn::MaskedLoad(lanes, tag_of, p);
  } else {
    // Highway's fallback would load the whole vector, aligned, before blending.
    alignas(64) hn::TFromD<D> copy[hn::MaxLanes(D())] = {};
    for (std::size_t i = 0, n = hn::CountTrue(tag_of, lanes); i < n; ++i)
      copy[i] = p[i];
    return hn::Load(tag_of, copy);
  }
}

/// Stores the lanes of a FirstN mask. The memory of other lanes is untouched.
template <class D, class M>
HWY_INLINE void store_first(hn::Vec<D> v, D tag_of, M lanes, hn::TFromD<D>* p) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  constexpr bool masked = HWY_TARGET == HWY_AVX3 || sizeof(hn::TFromD<D>) >= 4;
#else
  constexpr bool masked = false;
#endif
  if constexpr (masked) {
    hn::BlendedStore(v, lanes, tag_of, p);
  } else {
    alignas(64) hn::TFromD<D> copy[hn::MaxLanes(D())];
    hn::Store(v, tag_of, copy);
    for (std::size_t i = 0, n = hn::CountTrue(tag_of, lanes); i < n; ++i)
      p[i] = copy[i];
  }
}

/// The last step of a loop, over fewer lanes: the others load as zero and are not stored.
struct partial {
  hn::Mask<tag> lanes;  ///< a FirstN mask
  HWY_INLINE vec load(const float* p) const { return load_first(d, lanes, p); }
  template <class T>
  HWY_INLINE vec load(const T* p) const {
    return promoted(load_first(half_tag(), half_lanes(), &p->bits), T());
  }
  HWY_INLINE void store(vec v, float* p) const { store_first(v, d, lanes, p); }
  template <class T>
  HWY_INLINE void store(vec v, T* p) const {
    store_first(rounded(v, T()), half_tag(), half_lanes(), &p->bits);
  }
  HWY_INLINE vec or_zero(vec v) const { return hn::IfThenElseZero(lanes, v); }
  HWY_INLINE hn::Mask<half_tag> half_lanes() const {
    return hn::FirstN(half_tag(), hn::CountTrue(d, lanes));
  }
};

/// Calls body(i, step) for i = 0, width, ...; `step` loads and stores at index i.
template <class Body>
HWY_INLINE void each(std::int64_t n, const Body& body) {
  std::int64_t i = 0;
  for (; i + width <= n; i += width)
    body(i, whole{});
  if (i < n)
    body(i, partial{hn::FirstN(d, std::size_t(n - i))});
}

/// The sum of term(i, step) over all lanes. Four running vectors hide the latency of an addition.
/// The order depends only on n and the vector width.
template <class Term>
HWY_INLINE float sum(std::int64_t n, const Term& term) {
  vec s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  std::int64_t i = 0;
  for (; i + 4 * width <= n; i += 4 * width) {
    s0 = hn::Add(s0, term(i, whole{}));
    s1 = hn::Add(s1, term(i + width, whole{}));
    s2 = hn::Add(s2, term(i + 2 * width, whole{}));
    s3 = hn::Add(s3, term(i + 3 * width, whole{}));
  }
  for (; i + width <= n; i += width)
    s0 = hn::Add(s0, term(i, whole{}));
  if (i < n) {
    const partial last{hn::FirstN(d, std::size_t(n - i))};
    s1 = hn::Add(s1, last.or_zero(term(i, last)));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

/// The largest of n numbers, none of them NaN; -infinity if there are none.
template <class T>
HWY_INLINE float largest(const T* x, std::int64_t n) {
  constexpr float lowest = -std::numeric_limits<float>::infinity();
  vec m0 = hn::Set(d, lowest), m1 = m0, m2 = m0, m3 = m0;
  std::int64_t i = 0;
  for (; i + 4 * width <= n; i += 4 * width) {
    m0 = hn::Max(m0, whole{}.load(x + i));
    m1 = hn::Max(m1, whole{}.load(x + i + width));
    m2 = hn::Max(m2, whole{}.load(x + i + 2 * width));
    m3 = hn::Max(m3, whole{}.load(x + i + 3 * width));
  }
  for (; i + width <= n; i += width)
    m0 = hn::Max(m0, whole{}.load(x + i));
  if (i < n) {
    const partial last{hn::FirstN(d, std::size_t(n - i))};
    m1 = hn::Max(m1, hn::IfThenElse(last.lanes, last.load(x + i), m1));
  }
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(m0, m1), hn::Max(m2, m3))));
}

constexpr float lowest_exponent
    = -87.33654f;  ///< smallest exponent with a normal result: e^x = 2^-126

/// e^x to 2 units in the last place, for x from lowest_exponent to 88, or NaN.
HWY_INLINE vec exp_within(vec x) {
  const hn::RebindToSigned<tag> di;
  // x = q ln 2 + r. At 1.5 * 2^23 a float has no fraction bits, so the sum rounds to q, which is in
  // the lowest bits. The first part of ln 2 has 9 bits, so its product with q is exact even without
  // FMA.
  const vec shifter = hn::Set(d, 12582912.0f);
  const vec shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), shifter);
  const vec q = hn::Sub(shifted, shifter);
  vec r = hn::NegMulAdd(q, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(q, hn::Set(d, -2.12194440e-4f), r);

  // e^r on |r| <= ln(2) / 2, fitted for the least relative error: 3e-9.
  vec e = hn::MulAdd(r, hn::Set(d, 1.38144621e-3f), hn::Set(d, 8.36878088e-3f));
  e = hn::MulAdd(r, e, hn::Set(d, 4.16683943e-2f));
  e = hn::MulAdd(r, e, hn::Set(d, 1.66665201e-1f));
  e = hn::MulAdd(r, e, hn::Set(d, 4.99999934e-1f));
  e = hn::MulAdd(r, e, hn::Set(d, 1.0f));
  e = hn::MulAdd(r, e, hn::Set(d, 1.0f));

  // 2^q: the shift drops the high bits. Multiplying instead of adding exponents keeps NaN.
  const auto bits = hn::Add(hn::BitCast(di, shifted), hn::Set(di, 127));
  const vec power = hn::BitCast(d, hn::ShiftLeft<23>(bits));
  return hn::Mul(e, power);
}

/// e^x to 2 units in the last place, for x up to 88. Returns 0 below e^-87.3 (no denormals). NaN
/// stays NaN, so that the training step detects it.
HWY_INLINE vec exp_below(vec x) {
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, lowest_exponent)), exp_within(x));
}

/// exp_below for every x: above 88 the result is e^88, enough for a sigmoid in float.
HWY_INLINE vec exp(vec x) {
  // With this operand order, x86's minimum returns NaN if x is NaN.
  return exp_below(hn::Min(hn::Set(d, 88.0f), x));
}

/// s = 1 / (1 + e^-x), and rest = 1 - s without cancellation for s near 1.
HWY_INLINE vec sigmoid(vec x, vec& rest) {
  const vec one = hn::Set(d, 1.0f);
  const vec e = exp(hn::Neg(x));
  const vec s = hn::Div(one, hn::Add(one, e));
  rest = hn::Mul(e, s);
  return s;
}
HWY_INLINE vec sigmoid(vec x) {
  vec rest;
  return sigmoid(x, rest);
}

/// The normal distribution function of x, and the intermediate result bell = e^(-x^2 / 2).
///
/// The form is 7.1.26 of Abramowitz, Stegun: "Handbook of Mathematical Functions", with a
/// polynomial fitted here: erfc(z) = e^(-z^2) t P(t), t = 1 / (1 + z/2). The relative error is
/// below 5e-8 for z < 9.4; beyond that e^(-z^2) is 0 in float. The coefficients include the factor
/// 1/2 of erfc.
HWY_INLINE vec normal_distribution(vec x, vec& bell) {
  const vec one = hn::Set(d, 1.0f);
  const vec t = hn::Div(one, hn::MulAdd(hn::Abs(x), hn::Set(d, 0.353553391f), one));
  bell = exp(hn::Mul(hn::Mul(x, x), hn::Set(d, -0.5f)));
  vec p = hn::Set(d, -0.0294238519f);
  p = hn::MulAdd(p, t, hn::Set(d, 0.141745244f));
  p = hn::MulAdd(p, t, hn::Set(d, -0.242471324f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.137734681f));
  p = hn::MulAdd(p, t, hn::Set(d, -0.0124118998f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.100959208f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.121649891f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.141174036f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.141043995f));
  const vec below = hn::Mul(hn::Mul(p, t), bell);
  return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Sub(one, below), below);
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
