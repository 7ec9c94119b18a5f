// Writes finished blocks of a tile product to their destination.
//
// Compiled once per instruction set, like vector-inl.hpp. Requires TROUPE_TILES.

#if defined(TROUPE_KERNELS_CPU_TILE_RESULT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_TILE_RESULT_INL
#undef TROUPE_KERNELS_CPU_TILE_RESULT_INL
#else
#define TROUPE_KERNELS_CPU_TILE_RESULT_INL
#endif

#include "kernels/cpu/activation-inl.hpp"
#include "kernels/cpu/product.hpp"
#include "kernels/cpu/tile_packing-inl.hpp"
#include "kernels/cpu/tiled_product.hpp"

#ifdef TROUPE_TILES
HWY_PUSH_ATTRIBUTES(TROUPE_TILE_ATTRIBUTES)
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

struct no_activation {};

/// Writes a block with complete sums to c, a few rows at a time. Uses non-temporal stores if rows
/// are whole cache lines, because reading the lines first costs more than everything else. Small
/// results use ordinary stores and stay in the caches.
template <class T, class Activation>
class outgoing {
 public:
  explicit outgoing(const product<T>& of) : of_(of) {
    const std::int64_t line = 64 / element_bytes();
    constexpr std::int64_t small = 1 << 18;  // bytes: an eighth of the L2 cache, read soon
    lines_ = of.N % line == 0 && of.M * of.N * element_bytes() > small;
    for (const void* c : {(const void*)of.c, (const void*)of.rounded, (const void*)of.activated})
      lines_ = lines_ && reinterpret_cast<std::uintptr_t>(c) % 64 == 0;
  }

  /// Announces the next block, so that its inputs are prefetched.
  void expect(std::int64_t row, std::int64_t column) {
    const std::int64_t at = row * of_.N + column;
    next_left_ = of_.accumulated || of_.slope_at ? std::min(block_side, of_.M - row) : 0;
    if (of_.accumulated)
      next_ = reinterpret_cast<const char*>(of_.c + at);
    else if (of_.slope_at)
      next_ = reinterpret_cast<const char*>(of_.slope_at + at);
  }

  void begin(const float* sums, std::int64_t row, std::int64_t column) {
    rest();
    count_ = 0;
    sums_ = sums;
    columns_ = std::min(block_side, of_.N - column);
    left_ = std::min(block_side, of_.M - row);
    at_ = row * of_.N + column;
    bias_ = of_.bias ? of_.bias + column : nullptr;
  }

  static constexpr int most_added = 4;  ///< more leave the L1 cache
  /// Adds up to `most_added` blocks of sums in order: to `total` if `begun`, else to c or to
  /// nothing. Writes c if `complete`, else `total`.
  void add(const float* sums,
           int count,
           float* total,
           bool begun,
           bool complete,
           std::int64_t row,
           std::int64_t column) {
    begin(sums, row, column);
    count_ = count;
    total_ = total;
    begun_ = begun;
    complete_ = complete;
  }

  HWY_INLINE void some(int rows_at_once) {
    for (int n = 0; n < rows_at_once && next_left_ > 0; ++n, --next_left_) {
      _mm_prefetch(next_, _MM_HINT_T0);
      if (element_bytes() == sizeof(float))
        _mm_prefetch(next_ + 64, _MM_HINT_T0);
      next_ += of_.N * element_bytes();
    }
    for (int n = 0; n < rows_at_once && left_ > 0; ++n)
      one_row();
  }
  void rest() {
    while (left_ > 0)
      one_row();
  }

 private:
  std::int64_t element_bytes() const { return of_.c ? sizeof(float) : sizeof(T); }

  HWY_INLINE void one_row() {
    const bool line = columns_ == block_side && lines_;
    if (count_ == most_added && line) {
      add_line();
      total_ += block_side;
    } else if (count_ > 0) {
      each(columns_, [&](std::int64_t i, auto step) TROUPE_TILE_ATTR { add(step, i, line); });
      total_ += block_side;
    } else if (HWY_LIKELY(line)) {
      if (of_.c) {
        put_line(0);
        put_line(width);
      } else {
        put_rounded_line();
      }
    } else {
      each(columns_, [&](std::int64_t i, auto step) TROUPE_TILE_ATTR { put(step, i); });
    }
    sums_ += block_side;
    at_ += of_.N;
    --left_;
  }

  /// Adds a row of `most_added` blocks: like add(), with fewer branches.
  HWY_INLINE void add_line() {
    float* const c = of_.c + at_;
    const float* const before = begun_ ? total_ : of_.accumulated ? c : nullptr;
#pragma GCC unroll 2
    for (std::int64_t i = 0; i < block_side; i += width) {
      vec x = hn::Load(d, sums_ + i);
      if (before)
        x = hn::Add(hn::Load(d, before + i), x);
#pragma GCC unroll 4
      for (int n = 1; n < most_added; ++n)
        x = hn::Add(x, hn::Load(d, sums_ + n * block_floats + i));
      if (!complete_)
        hn::Store(x, d, total_ + i);
      else if (!of_.accumulated)
        hn::Stream(x, d, c + i);
      else
        hn::Store(x, d, c + i);
    }
  }

  template <class Step>
  HWY_INLINE void add(Step step, std::int64_t i, bool line) {
    float* const c = of_.c + at_ + i;
    const bool reads_c = of_.accumulated && !begun_;
    vec x = hn::Load(d, sums_ + i);
    if (begun_ || reads_c)
      x = hn::Add(begun_ ? hn::Load(d, total_ + i) : step.load(c), x);
#pragma GCC unroll 4
    for (int n = 1; n < most_added; ++n)
      if (n < count_)
        x = hn::Add(x, hn::Load(d, sums_ + n * block_floats + i));
    if (!complete_)
      hn::Store(x, d, total_ + i);
    else if (line && !of_.accumulated)
      hn::Stream(x, d, c);
    else
      step.store(x, c);
  }

  HWY_INLINE void put_line(std::int64_t i) {
    const vec x = hn::Load(d, sums_ + i);
    float* const to = of_.c + at_ + i;
    if (of_.accumulated)
      hn::Store(hn::Add(hn::Load(d, to), x), d, to);
    else
      hn::Stream(x, d, to);
  }

  HWY_INLINE void put_rounded_line() {
    vec low = hn::Load(d, sums_), high = hn::Load(d, sums_ + width);
    if (bias_) {
      low = hn::Add(low, whole{}.load(bias_));
      high = hn::Add(high, whole{}.load(bias_ + width));
    }
    if constexpr (std::is_same_v<Activation, no_activation>) {
      stream(low, high, of_.rounded + at_);
    } else {
      low = as_stored(low);
      high = as_stored(high);
      if (of_.slope_at) {
        const T* const z = of_.slope_at + at_;
        stream(hn::Mul(low, Activation::slope(whole{}.load(z))),
               hn::Mul(high, Activation::slope(whole{}.load(z + width))),
               of_.rounded + at_);
        return;
      }
      if (of_.rounded)
        stream(low, high, of_.rounded + at_);
      stream(Activation::value(low), Activation::value(high), of_.activated + at_);
    }
  }

  static HWY_INLINE vec as_stored(vec x) {
    if constexpr (std::is_same_v<T, float>)
      return x;
    else
      return promoted(rounded(x, T()), T());
  }

  static HWY_INLINE void stream(vec low, vec high, float* to) {
    hn::Stream(low, d, to);
    hn::Stream(high, d, to + width);
  }
  static HWY_INLINE void stream(vec low, vec high, bf16* to) {
    const hn::Repartition<std::uint16_t, tag> halves;
    const auto both = hn::ConcatOdd(
        halves, hn::BitCast(halves, rounded_bits(high)), hn::BitCast(halves, rounded_bits(low)));
    hn::Stream(both, halves, &to->bits);
  }

  template <class Step>
  HWY_INLINE void put(Step step, std::int64_t i) {
    vec x = hn::LoadU(d, sums_ + i);
    const std::int64_t at = at_ + i;
    if (of_.c) {
      step.store(of_.accumulated ? hn::Add(step.load(of_.c + at), x) : x, of_.c + at);
      return;
    }
    if (bias_)
      x = hn::Add(x, step.load(bias_ + i));
    if constexpr (std::is_same_v<Activation, no_activation>) {
      step.store(x, of_.rounded + at);
    } else {
      x = as_stored(x);
      if (of_.slope_at) {
        step.store(hn::Mul(x, Activation::slope(step.load(of_.slope_at + at))), of_.rounded + at);
        return;
      }
      if (of_.rounded)
        step.store(x, of_.rounded + at);
      step.store(Activation::value(x), of_.activated + at);
    }
  }

  const product<T>& of_;
  bool lines_;  ///< rows of c are aligned to cache lines
  const float* sums_ = nullptr;
  const T* bias_ = nullptr;
  std::int64_t at_ = 0, columns_ = 0, left_ = 0;
  const char* next_ = nullptr;
  std::int64_t next_left_ = 0;

  int count_ = 0;  ///< blocks of sums that add() got; 0 after begin()
  float* total_ = nullptr;
  bool begun_ = false, complete_ = false;
};

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_POP_ATTRIBUTES
#endif  // TROUPE_TILES

#endif  // per-target include guard
