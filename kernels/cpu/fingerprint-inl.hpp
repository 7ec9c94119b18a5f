// Vectorised fingerprints (kernels/op/fingerprint.hpp) of parts of a grain.
//
// Compiled once per instruction set, like vector-inl.hpp.

#if defined(TROUPE_KERNELS_CPU_FINGERPRINT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_FINGERPRINT_INL
#undef TROUPE_KERNELS_CPU_FINGERPRINT_INL
#else
#define TROUPE_KERNELS_CPU_FINGERPRINT_INL
#endif

#include "kernels/op/fingerprint.hpp"

#include <cstring>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Computes the sum for one of the two keys. A pair of words occupies a 64-bit lane, and so does
/// its key: the lower half is added to the first word, the upper half to the second.
class fingerprint_lanes {
 public:
  using pairs = hn::ScalableTag<std::uint64_t>;
  using words = hn::Repartition<std::uint32_t, pairs>;
  static constexpr std::int64_t size = hn::MaxLanes(pairs());

  /// Starts at pair `first` of the grain.
  HWY_INLINE fingerprint_lanes(const fingerprint_key& key, std::int64_t first) {
    HWY_ALIGN std::uint64_t keys[size];
    for (std::int64_t lane = 0; lane < size; ++lane)
      keys[lane] = key.at(std::uint64_t(first + lane));
    key_ = hn::Load(pairs(), keys);
    step_ = hn::Set(pairs(), std::uint64_t(size) * key.step);
    sum_ = hn::Zero(pairs());
  }

  HWY_INLINE void add(hn::Vec<words> x) {
    const auto keyed = hn::Add(x, hn::BitCast(words(), key_));
    const auto second = hn::BitCast(words(), hn::ShiftRight<32>(hn::BitCast(pairs(), keyed)));
    sum_ = hn::Add(sum_, hn::MulEven(keyed, second));
    key_ = hn::Add(key_, step_);
  }

  HWY_INLINE std::uint64_t sum() const {
    HWY_ALIGN std::uint64_t lanes[size];
    hn::Store(sum_, pairs(), lanes);
    std::uint64_t out = 0;
    for (const auto lane : lanes)
      out += lane;
    return out;
  }

 private:
  hn::Vec<pairs> key_, step_, sum_;
};

/// Adds the contribution of words [first, first + n) of a grain, stored at x, to `sums`. `first` is
/// even; n is even except at the end of the grain.
inline void add_fingerprint(const void* x,
                            std::int64_t first,
                            std::int64_t n,
                            std::uint64_t key,
                            std::uint64_t (&sums)[2]) {
  const auto* const words = static_cast<const std::uint32_t*>(x);
  const fingerprint_key keys[] = {fingerprint_key_of(key, 0), fingerprint_key_of(key, 1)};
  fingerprint_lanes a(keys[0], first / 2), b(keys[1], first / 2);
  constexpr std::int64_t step = 2 * fingerprint_lanes::size;
  std::int64_t i = 0;
  for (; i + step <= n; i += step) {
    const auto two = hn::LoadU(fingerprint_lanes::words(), words + i);
    a.add(two);
    b.add(two);
  }
  sums[0] += a.sum();
  sums[1] += b.sum();
  for (; i < n; i += 2) {
    std::uint32_t pair[2] = {};
    std::memcpy(pair, words + i, std::size_t(i + 1 < n ? 8 : 4));
    for (int j = 0; j < 2; ++j)
      sums[j] += fingerprint_term(pair[0], pair[1], keys[j].at(std::uint64_t((first + i) / 2)));
  }
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
