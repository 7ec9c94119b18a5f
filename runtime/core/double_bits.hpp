// A double as bytes: every bit of it.

#pragma once

#include <bit>
#include <cstdint>

namespace troupe::runtime {

/// What inspect() visits instead of a double that may be infinite or NaN: CAF 0.17 takes doubles
/// apart by arithmetic, never ends with infinity, and makes a number of NaN.
///
///   double_bits loss(x.loss);
///   return f(x.iteration, *loss);
///
/// Lives for one call of inspect. Writes only what was decoded: an object that several threads
/// encode at once is not touched.
class double_bits {
 public:
  explicit double_bits(double& at) : at_(at), bits_(std::bit_cast<std::uint64_t>(at)) {}
  double_bits(const double_bits&) = delete;
  double_bits& operator=(const double_bits&) = delete;
  ~double_bits() {
    if (bits_ != std::bit_cast<std::uint64_t>(at_))
      at_ = std::bit_cast<double>(bits_);
  }

  std::uint64_t& operator*() { return bits_; }

 private:
  double& at_;
  std::uint64_t bits_;
};

}  // namespace troupe::runtime
