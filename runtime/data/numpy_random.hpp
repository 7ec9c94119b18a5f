// The random generators of numpy that data sets need, bit for bit: they reproduce Megatron's orders
// of documents and samples.
//
// Use these sequential streams for the order of data only. The random numbers of the model come
// from the counter-based generator in runtime/core.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <span>
#include <utility>

namespace troupe::runtime {

/// numpy.random.RandomState(seed): MT19937 and the "legacy" distributions.
class numpy_random_state {
 public:
  explicit numpy_random_state(std::uint32_t seed) : bits_(seed) {}

  std::uint32_t next32() { return static_cast<std::uint32_t>(bits_()); }
  std::uint64_t next64();

  /// random(): uniform in [0, 1), 53 bits.
  double random();

  /// Uniform in [0, max], by masking and rejection. Uses no random bits when max is 0.
  std::uint64_t interval(std::uint64_t max);

  /// binomial(1, p), p in [0, 1]: true with probability p. Uses random bits for 0 and 1, too.
  bool bernoulli(double p);

  /// geometric(p), 0 < p < 1/3, and at least 1.
  std::int64_t geometric(double p);

  /// shuffle(x) of a one-dimensional array. Draws indices ahead and prefetches, so that the cache
  /// misses of a large array overlap.
  template <class T>
  void shuffle(std::span<T> x) {
    std::array<std::size_t, 64> other;
    for (std::size_t end = x.size(); end > 1;) {
      const auto count = std::min(other.size(), end - 1);
      for (std::size_t k = 0; k < count; ++k) {
        other[k] = interval(end - 1 - k);
        __builtin_prefetch(&x[other[k]], 1);
      }
      for (std::size_t k = 0; k < count; ++k)
        std::swap(x[end - 1 - k], x[other[k]]);
      end -= count;
    }
  }

 private:
  std::mt19937 bits_;
};

/// numpy.random.default_rng(seed): PCG64 (XSL-RR 128/64) seeded through SeedSequence.
/// O'Neill, "PCG: a family of simple fast space-efficient statistically good algorithms", 2014.
class numpy_generator {
 public:
  explicit numpy_generator(std::uint32_t seed);

  std::uint64_t next64();
  std::uint32_t next32();  ///< first the low half of a 64-bit draw, then its high half

  /// integers(low, high, dtype=int32): uniform in [low, high), low < high, by Lemire's method.
  std::int32_t integer32(std::int32_t low, std::int32_t high);

 private:
  __extension__ using uint128 = unsigned __int128;

  void step() { state_ = state_ * multiplier + increment_; }

  static constexpr uint128 multiplier
      = (uint128{2549297995355413924ULL} << 64) | uint128{4865540595714422341ULL};
  uint128 state_ = 0;
  uint128 increment_ = 0;
  std::uint32_t high_half_ = 0;
  bool has_high_half_ = false;
};

}  // namespace troupe::runtime
