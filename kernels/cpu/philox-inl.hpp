// Vectorised Philox: many counters at a time, with the same words as kernels/op/philox.hpp.
//
// Compiled once per instruction set, like vector-inl.hpp.

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

using word_pair_tag = hn::ScalableTag<std::uint64_t>;
using word_pairs = hn::Vec<word_pair_tag>;

// One block per 64-bit lane, each word in the low half. The product of two low halves is one
// instruction, which ignores the high halves.
struct philox_lanes {
  word_pairs c0, c1, c2, c3;

  static HWY_INLINE word_pairs times(word_pairs a, std::uint32_t b) {
    const hn::Repartition<std::uint32_t, word_pair_tag> narrow;
    return hn::MulEven(hn::BitCast(narrow, a), hn::Set(narrow, b));
  }
  HWY_INLINE void round(word_pairs k0, word_pairs k1) {
    const auto p0 = times(c0, 0xD2511F53u), p1 = times(c2, 0xCD9E8D57u);
    c0 = hn::Xor3(hn::ShiftRight<32>(p1), c1, k0);
    c1 = p1;
    c2 = hn::Xor3(hn::ShiftRight<32>(p0), c3, k1);
    c3 = p0;
  }

  static HWY_INLINE word_pairs join(word_pairs high, word_pairs low) {
    const hn::Repartition<std::uint32_t, word_pair_tag> narrow;
    const auto shifted = hn::BitCast(narrow, hn::ShiftLeft<32>(high));
    return hn::BitCast(word_pair_tag(), hn::OddEven(shifted, hn::BitCast(narrow, low)));
  }
  HWY_INLINE void store(std::uint32_t* words) const {
    const word_pair_tag wide;
    const auto w01 = join(c1, c0), w23 = join(c3, c2);
    auto* out = reinterpret_cast<std::uint64_t*>(words);
    hn::StoreU(hn::InterleaveLower(wide, w01, w23), wide, out);
    hn::StoreU(hn::InterleaveUpper(wide, w01, w23), wide, out + hn::MaxLanes(wide));
  }
};

/// Writes the words 4 * block, ... of a stream: at least `n` and at most 31 more, because it writes
/// whole vectors of blocks.
HWY_INLINE void philox_words(std::uint32_t* HWY_RESTRICT words,
                             std::int64_t n,
                             std::uint64_t key,
                             std::uint64_t stream,
                             std::uint64_t block) {
  const word_pair_tag wide;
  constexpr std::int64_t blocks = hn::MaxLanes(wide);
  word_pairs keys0[10], keys1[10];
  for (std::uint32_t round = 0; round < 10; ++round) {
    keys0[round] = hn::Set(wide, std::uint32_t(key) + round * 0x9E3779B9u);
    keys1[round] = hn::Set(wide, std::uint32_t(key >> 32) + round * 0xBB67AE85u);
  }

  // Even lanes hold the first half of the blocks, odd lanes the second half. Interleaving pairs of
  // lanes within 128 bits then yields the blocks in order.
  alignas(64) std::uint64_t offsets[blocks];
  for (std::int64_t k = 0; k < blocks; ++k)
    offsets[k] = std::uint64_t(k / 2 + k % 2 * (blocks / 2));
  const auto offset = hn::Load(wide, offsets);
  const auto c2 = hn::Set(wide, stream & 0xFFFFFFFFu), c3 = hn::Set(wide, stream >> 32);
  const auto start = [&](std::uint64_t first) HWY_ATTR {
    const auto index = hn::Add(hn::Set(wide, first), offset);
    return philox_lanes{index, hn::ShiftRight<32>(index), c2, c3};
  };

  // Two vectors of blocks at once: the rounds of one form a dependency chain that leaves units
  // idle.
  constexpr std::int64_t step = 4 * blocks;
  std::int64_t i = 0;
  for (; i + step < n; i += 2 * step, block += 2 * std::uint64_t(blocks)) {
    auto a = start(block), b = start(block + std::uint64_t(blocks));
    for (int round = 0; round < 10; ++round) {
      a.round(keys0[round], keys1[round]);
      b.round(keys0[round], keys1[round]);
    }
    a.store(words + i);
    b.store(words + i + step);
  }
  if (i < n) {
    auto a = start(block);
    for (int round = 0; round < 10; ++round)
      a.round(keys0[round], keys1[round]);
    a.store(words + i);
  }
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
