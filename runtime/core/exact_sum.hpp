// Sums of non-negative numbers that do not depend on their order.

#pragma once

#include <array>
#include <cstdint>

namespace troupe::runtime {

/// A fixed-point number of 384 bits, the lowest worth 2^-192: every double added is cut off there,
/// and the rest is added exactly. So parts of a sum may be made anywhere, in any order, and have
/// the same bits together: squares of gradients of which each rank holds some. Kulisch: "Computer
/// Arithmetic and Validity", 2008.
class exact_sum {
 public:
  exact_sum() = default;
  explicit exact_sum(double x) { *this += x; }

  /// x >= 0. Infinity, NaN and sums from 2^190 on make it infinite for ever.
  exact_sum& operator+=(double x);
  exact_sum& operator+=(const exact_sum& x);

  bool is_finite() const { return finite_; }
  double value() const;  ///< rounded; infinity when it is not finite

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
