#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/split.hpp"
#include "kernels/cpu/targets.hpp"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/jitter.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/philox-inl.hpp"
#include "kernels/cpu/vector-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

// Within a sequence, element number and word number are equal, so rows do not matter.
void jitter_range(const jitter<float>& op, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t chunk = 512;
  // Room for up to 3 words before the first, and for whole vectors beyond the last.
  alignas(64) std::uint32_t words[chunk + 64];
  const hn::RebindToUnsigned<tag> du;
  const std::int64_t sequence = op.T_ * op.C;
  const vec lowest = hn::Set(d, 1 - op.eps), width_of_word = hn::Set(d, 2 * op.eps * 0x1p-24f);
  while (begin < end) {
    const std::int64_t here = op.first_row * op.C + begin;
    const std::int64_t s = here / sequence, first = here % sequence, before = first % 4;
    const std::int64_t n = std::min({chunk, sequence - first, end - begin});
    philox_words(words, before + n, op.key, op.sample[s], std::uint64_t(first / 4));
    const std::uint32_t* word = words + before;
    const float* x = op.x + begin;
    float* y = op.y + begin;
    each(n, [=](std::int64_t i, auto step) HWY_ATTR {
      // The upper 24 bits of a word are exact in float.
      const auto bits = hn::ShiftRight<8>(hn::LoadU(du, word + i));
      const vec u = hn::ConvertTo(d, hn::BitCast(hn::RebindToSigned<tag>(), bits));
      step.store(hn::Mul(step.load(x + i), hn::MulAdd(u, width_of_word, lowest)), y + i);
    });
    begin += n;
  }
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {
namespace {

HWY_EXPORT(jitter_range);

}  // namespace

template <class T>
void run(const jitter<T>& op, const context& in) {
  split(
      in.threads, op.R * op.C, elements_worth_a_thread, [&](std::int64_t begin, std::int64_t end) {
        HWY_DYNAMIC_DISPATCH(jitter_range)(op, begin, end);
      });
}

template void run(const jitter<float>&, const context&);

}  // namespace troupe::kernels::cpu
#endif
