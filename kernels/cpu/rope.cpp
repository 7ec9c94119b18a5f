#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/split.hpp"
#include "kernels/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rope.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/vector-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

// Sines of this number of pairs are kept at once; a longer head is rotated in several runs.
constexpr std::int64_t pairs_at_once = 256;

// Cosine and sine of position * frequency[i], times `magnitude`. The angle is a double: at position
// 100,000 a float is only accurate to 0.004. After reduction to within pi/4 of zero, floats are
// accurate enough.
void turns(double position,
           const float* frequency,
           std::int64_t n,
           bool backward,
           float magnitude,
           float* HWY_RESTRICT cosine,
           float* HWY_RESTRICT sine) {
  const hn::ScalableTag<double> wide;
  const hn::Rebind<float, decltype(wide)> df;
  const hn::Rebind<std::int32_t, decltype(wide)> di;
  const std::int64_t step = std::int64_t(hn::Lanes(wide));
  const auto flip = hn::Set(di, backward ? 2 : 0);
  const auto size = hn::Set(df, magnitude);

  for (std::int64_t i = 0; i < n; i += step) {
    const auto f = i + step <= n
                       ? hn::LoadU(df, frequency + i)
                       : load_first(df, hn::FirstN(df, std::size_t(n - i)), frequency + i);
    const auto angle = hn::Mul(hn::PromoteTo(wide, f), hn::Set(wide, position));
    // Splits off quarter turns. Two parts of pi/2 keep the rest exact up to 2^31 radians.
    const auto quarters = hn::Round(hn::Mul(angle, hn::Set(wide, 0.63661977236758134)));
    auto rest = hn::NegMulAdd(quarters, hn::Set(wide, 1.5707963267948966), angle);
    rest = hn::NegMulAdd(quarters, hn::Set(wide, 6.1232339957367660e-17), rest);

    const auto x = hn::DemoteTo(df, rest);
    const auto x2 = hn::Mul(x, x);
    // Polynomials fitted on |x| <= pi/4 for the least relative error of the sine (4e-9) and the
    // least absolute error of the cosine (1e-10).
    auto s = hn::MulAdd(x2, hn::Set(df, -1.95169751e-4f), hn::Set(df, 8.33217582e-3f));
    s = hn::MulAdd(x2, s, hn::Set(df, -1.66666549e-1f));
    s = hn::MulAdd(hn::Mul(x2, s), x, x);
    auto c = hn::MulAdd(x2, hn::Set(df, 2.44380868e-5f), hn::Set(df, -1.38873644e-3f));
    c = hn::MulAdd(x2, c, hn::Set(df, 4.16666468e-2f));
    c = hn::MulAdd(hn::Mul(x2, x2), c, hn::NegMulAdd(x2, hn::Set(df, 0.5f), hn::Set(df, 1.0f)));

    // Odd quarters swap sine and cosine. The sine is negative in the last two quarters, the cosine
    // in the middle two: bit 1 of the quarter becomes the sign. Rotating back negates the sine.
    const auto quarter = hn::DemoteTo(di, quarters);
    const auto odd = hn::RebindMask(df, hn::TestBit(quarter, hn::Set(di, 1)));
    const auto sign = [&](auto q) HWY_ATTR {
      return hn::BitCast(df, hn::ShiftLeft<30>(hn::And(q, hn::Set(di, 2))));
    };
    const auto cosines = hn::Xor(hn::IfThenElse(odd, s, c), sign(hn::Add(quarter, hn::Set(di, 1))));
    const auto sines = hn::Xor(hn::IfThenElse(odd, c, s), sign(hn::Add(quarter, flip)));
    hn::StoreU(hn::Mul(cosines, size), df, cosine + i);
    hn::StoreU(hn::Mul(sines, size), df, sine + i);
  }
}

template <class T>
HWY_INLINE void turn_halves(
    T* first, T* second, const float* cosine, const float* sine, std::int64_t n) {
  each(n, [=](std::int64_t i, auto step) HWY_ATTR {
    const vec a = step.load(first + i), b = step.load(second + i);
    const vec c = step.load(cosine + i), s = step.load(sine + i);
    step.store(hn::NegMulAdd(b, s, hn::Mul(a, c)), first + i);
    step.store(hn::MulAdd(a, s, hn::Mul(b, c)), second + i);
  });
}

HWY_INLINE void load_neighbours(const float* x, vec& a, vec& b) {
  hn::LoadInterleaved2(d, x, a, b);
}
HWY_INLINE void store_neighbours(vec a, vec b, float* x) {
  hn::StoreInterleaved2(a, b, d, x);
}

// A pair of bf16 is one 32-bit lane, with the first number in the lower half.
HWY_INLINE void load_neighbours(const bf16* x, vec& a, vec& b) {
  const auto pairs = hn::LoadU(bits_tag(), reinterpret_cast<const std::uint32_t*>(x));
  a = hn::BitCast(d, hn::ShiftLeft<16>(pairs));
  b = hn::BitCast(d, hn::And(pairs, hn::Set(bits_tag(), 0xffff0000u)));
}
HWY_INLINE void store_neighbours(vec a, vec b, bf16* x) {
  const auto upper = hn::And(rounded_bits(b), hn::Set(bits_tag(), 0xffff0000u));
  const auto pairs = hn::Or(upper, hn::ShiftRight<16>(rounded_bits(a)));
  hn::StoreU(pairs, bits_tag(), reinterpret_cast<std::uint32_t*>(x));
}

HWY_INLINE void load_neighbours(const f16* x, vec& a, vec& b) {
  const hn::Repartition<std::uint16_t, tag> halves;
  const auto pairs = hn::LoadU(halves, &x->bits);
  a = promoted(hn::LowerHalf(hn::ConcatEven(halves, pairs, pairs)), f16());
  b = promoted(hn::LowerHalf(hn::ConcatOdd(halves, pairs, pairs)), f16());
}
HWY_INLINE void store_neighbours(vec a, vec b, f16* x) {
  const bits_tag du;
  const auto lower = hn::PromoteTo(du, rounded(a, f16()));
  const auto upper = hn::ShiftLeft<16>(hn::PromoteTo(du, rounded(b, f16())));
  hn::StoreU(hn::Or(lower, upper), du, reinterpret_cast<std::uint32_t*>(x));
}

template <class T>
HWY_INLINE void turn_neighbours(T* x, const float* cosine, const float* sine, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + width <= n; i += width) {
    vec a, b;
    load_neighbours(x + 2 * i, a, b);
    const vec c = hn::LoadU(d, cosine + i), s = hn::LoadU(d, sine + i);
    store_neighbours(
        hn::NegMulAdd(b, s, hn::Mul(a, c)), hn::MulAdd(a, s, hn::Mul(b, c)), x + 2 * i);
  }
  for (; i < n; ++i) {
    const auto a = float(x[2 * i]), b = float(x[2 * i + 1]);
    x[2 * i] = T(a * cosine[i] - b * sine[i]);
    x[2 * i + 1] = T(b * cosine[i] + a * sine[i]);
  }
}

template <class T>
void rope_rows(const rope<T>& op, std::int64_t begin, std::int64_t end) {
  alignas(64) float cosine[pairs_at_once], sine[pairs_at_once];
  const std::int64_t half = op.rotated / 2;
  for (std::int64_t r = begin; r < end; ++r)
    for (std::int64_t i = 0; i < half; i += pairs_at_once) {
      const std::int64_t n = std::min(pairs_at_once, half - i);
      turns(op.position[r], op.frequency + i, n, op.backward, op.magnitude, cosine, sine);
      for (std::int64_t g = 0; g < op.G; ++g)
        for (std::int64_t h = 0; h < op.heads; ++h) {
          T* x = op.x + r * op.row + g * op.group + h * op.D;
          if (op.interleaved)
            turn_neighbours(x + 2 * i, cosine, sine, n);
          else
            turn_halves(x + i, x + half + i, cosine, sine, n);
        }
    }
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {

TROUPE_EXPORT(rope_rows);

template <class T>
void run(const rope<T>& op, const context& in) {
  const std::int64_t grain = rows_worth_a_thread(op.G * op.heads * op.rotated);
  split(in.threads, op.R, grain, [&](std::int64_t begin, std::int64_t end) {
    TROUPE_DISPATCH(rope_rows, T)(op, begin, end);
  });
}

template void run(const rope<float>&, const context&);
template void run(const rope<bf16>&, const context&);
template void run(const rope<f16>&, const context&);

}  // namespace troupe::kernels::cpu
#endif
