// Exact sums of non-negative numbers, independent of the order of the terms.

#pragma once

#include <array>
#include <cstdint>

namespace troupe::runtime {

/// A fixed-point number of 384 bits; the lowest bit is worth 2^-192. Each double is truncated to
/// that grid and then added exactly. So partial sums of squared gradients give the same bits in any
/// order and under any sharding. Kulisch: "Computer Arithmetic and Validity", 2008.
class exact_sum {
 public:
  exact_sum() = default;
  explicit exact_sum(double x) { *this += x; }

  /// Requires x >= 0. Infinity, NaN and sums of 2^190 or more make the result infinite permanently.
  exact_sum& operator+=(double x);
  exact_sum& operator+=(const exact_sum& x);

  bool is_finite() const { return finite_; }
  double value() const;  ///< rounded; infinity if it is not finite

  friend bool operator==(const exact_sum&, const exact_sum&) = default;

  template <class Inspector>
  friend typename Inspector::result_type inspect(Inspector& f, exact_sum& x) {
    return f(x.words_, x.finite_);
  }

 private:
  static constexpr int words = 6;
  static constexpr int lowest = -192;  ///< exponent of the lowest bit

  void add_at(int word, std::uint64_t x);

  std::array<std::uint64_t, words> words_ = {};  ///< lowest first
  bool finite_ = true;
};

}  // namespace troupe::runtime
