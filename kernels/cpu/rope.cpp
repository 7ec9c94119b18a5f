#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/split.hpp"
#include "kernels/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rope.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/vector-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

// Pairs whose sines are held at once. A longer head is turned in several stretches.
constexpr std::int64_t pairs_at_once = 256;

// Cosine and sine of position * frequency[i]. The angle is a double, because at position 100,000 a
// float knows it to 0.004 only; once it is within pi/4 of zero, floats are enough.
void turns(double position,
           const float* frequency,
           std::int64_t n,
           bool backward,
           float* HWY_RESTRICT cosine,
           float* HWY_RESTRICT sine) {
  const hn::ScalableTag<double> wide;
  const hn::Rebind<float, decltype(wide)> df;
  const hn::Rebind<std::int32_t, decltype(wide)> di;
  const std::int64_t step = std::int64_t(hn::Lanes(wide));
  const auto flip = hn::Set(di, backward ? 2 : 0);

  for (std::int64_t i = 0; i < n; i += step) {
    const auto f = i + step <= n
                       ? hn::LoadU(df, frequency + i)
                       : load_first(df, hn::FirstN(df, std::size_t(n - i)), frequency + i);
    const auto angle = hn::Mul(hn::PromoteTo(wide, f), hn::Set(wide, position));
    // In quarter turns, and what remains. The two parts of pi/2 keep it exact to 2^31 radians.
    const auto quarters = hn::Round(hn::Mul(angle, hn::Set(wide, 0.63661977236758134)));
    auto rest = hn::NegMulAdd(quarters, hn::Set(wide, 1.5707963267948966), angle);
    rest = hn::NegMulAdd(quarters, hn::Set(wide, 6.1232339957367660e-17), rest);

    const auto x = hn::DemoteTo(df, rest);
    const auto x2 = hn::Mul(x, x);
    // Fitted on |x| <= pi/4 for the least relative (sine) and absolute (cosine) error: 4e-9, 1e-10.
    auto s = hn::MulAdd(x2, hn::Set(df, -1.95169751e-4f), hn::Set(df, 8.33217582e-3f));
    s = hn::MulAdd(x2, s, hn::Set(df, -1.66666549e-1f));
    s = hn::MulAdd(hn::Mul(x2, s), x, x);
    auto c = hn::MulAdd(x2, hn::Set(df, 2.44380868e-5f), hn::Set(df, -1.38873644e-3f));
    c = hn::MulAdd(x2, c, hn::Set(df, 4.16666468e-2f));
    c = hn::MulAdd(hn::Mul(x2, x2), c, hn::NegMulAdd(x2, hn::Set(df, 0.5f), hn::Set(df, 1.0f)));

    // Odd quarters swap the two; the sine is negative in the last two quarters, the cosine in the
    // middle two: bit 1 of the quarter, moved to the sign. Turning back is half a turn of the sine.
    const auto quarter = hn::DemoteTo(di, quarters);
    const auto odd = hn::RebindMask(df, hn::TestBit(quarter, hn::Set(di, 1)));
    const auto sign = [&](auto q) HWY_ATTR {
      return hn::BitCast(df, hn::ShiftLeft<30>(hn::And(q, hn::Set(di, 2))));
    };
    hn::StoreU(
        hn::Xor(hn::IfThenElse(odd, s, c), sign(hn::Add(quarter, hn::Set(di, 1)))), df, cosine + i);
    hn::StoreU(hn::Xor(hn::IfThenElse(odd, c, s), sign(hn::Add(quarter, flip))), df, sine + i);
  }
}

HWY_INLINE void turn_halves(
    float* first, float* second, const float* cosine, const float* sine, std::int64_t n) {
  each(n, [=](std::int64_t i, auto step) HWY_ATTR {
    const vec a = step.load(first + i), b = step.load(second + i);
    const vec c = step.load(cosine + i), s = step.load(sine + i);
    step.store(hn::NegMulAdd(b, s, hn::Mul(a, c)), first + i);
    step.store(hn::MulAdd(a, s, hn::Mul(b, c)), second + i);
  });
}

HWY_INLINE void turn_neighbours(float* x, const float* cosine, const float* sine, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + width <= n; i += width) {
    vec a, b;
    hn::LoadInterleaved2(d, x + 2 * i, a, b);
    const vec c = hn::LoadU(d, cosine + i), s = hn::LoadU(d, sine + i);
    hn::StoreInterleaved2(
        hn::NegMulAdd(b, s, hn::Mul(a, c)), hn::MulAdd(a, s, hn::Mul(b, c)), d, x + 2 * i);
  }
  for (; i < n; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1];
    x[2 * i] = a * cosine[i] - b * sine[i];
    x[2 * i + 1] = b * cosine[i] + a * sine[i];
  }
}

void rope_rows(const rope<float>& op, std::int64_t begin, std::int64_t end) {
  alignas(64) float cosine[pairs_at_once], sine[pairs_at_once];
  const std::int64_t half = op.rotated / 2;
  for (std::int64_t r = begin; r < end; ++r)
    for (std::int64_t i = 0; i < half; i += pairs_at_once) {
      const std::int64_t n = std::min(pairs_at_once, half - i);
      turns(op.position[r], op.frequency + i, n, op.backward, cosine, sine);
      for (std::int64_t g = 0; g < op.G; ++g)
        for (std::int64_t h = 0; h < op.heads; ++h) {
          float* x = op.x + r * op.row + g * op.group + h * op.D;
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

HWY_EXPORT(rope_rows);

template <>
void run(const rope<float>& op, const context& in) {
  const std::int64_t grain = rows_worth_a_thread(op.G * op.heads * op.rotated);
  split(in.threads, op.R, grain, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(rope_rows)(op, begin, end);
  });
}

}  // namespace troupe::kernels::cpu
#endif
