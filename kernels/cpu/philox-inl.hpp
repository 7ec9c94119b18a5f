// Random words, many counters at a time: the same words as kernels/op/philox.hpp.
//
// Compiled once per instruction set, as vector-inl.hpp is.

#if defined(TROUPE_KERNELS_CPU_PHILOX_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_PHILOX_INL
#undef TROUPE_KERNELS_CPU_PHILOX_INL
#else
#define TROUPE_KERNELS_CPU_PHILOX_INL
#endif

#include <cstdint>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Writes the words 4 * block, ... of stream `stream` to `words`: at least `n` of them, and at most
/// 31 more, as whole vectors of blocks.
HWY_INLINE void philox_words(std::uint32_t* HWY_RESTRICT words,
                             std::int64_t n,
                             std::uint64_t key,
                             std::uint64_t stream,
                             std::uint64_t block) {
  // One block a 64-bit lane, each word in the low half: the product of two low halves is then one
  // instruction, which never looks at what lies in the high halves.
  const hn::ScalableTag<std::uint64_t> wide;
  const hn::Repartition<std::uint32_t, decltype(wide)> narrow;
  const std::int64_t blocks = std::int64_t(hn::Lanes(wide));
  const auto times = [&](auto a, auto b) HWY_ATTR {
    return hn::MulEven(hn::BitCast(narrow, a), hn::BitCast(narrow, b));
  };
  const auto m0 = hn::Set(wide, 0xD2511F53u), m1 = hn::Set(wide, 0xCD9E8D57u);
  const auto low = hn::Set(wide, 0xFFFFFFFFu);

  for (std::int64_t i = 0; i < n; i += 4 * blocks, block += std::uint64_t(blocks)) {
    const auto index = hn::Add(hn::Set(wide, block), hn::Iota(wide, 0));
    auto c0 = index, c1 = hn::ShiftRight<32>(index);
    auto c2 = hn::Set(wide, stream & 0xFFFFFFFFu), c3 = hn::Set(wide, stream >> 32);
    auto k0 = std::uint32_t(key), k1 = std::uint32_t(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const auto p0 = times(c0, m0), p1 = times(c2, m1);
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), c1), hn::Set(wide, k0));
      c1 = p1;
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), c3), hn::Set(wide, k1));
      c3 = p0;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    const auto w01 = hn::Or(hn::And(c0, low), hn::ShiftLeft<32>(c1));
    const auto w23 = hn::Or(hn::And(c2, low), hn::ShiftLeft<32>(c3));
    hn::StoreInterleaved2(w01, w23, wide, reinterpret_cast<std::uint64_t*>(words + i));
  }
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
