// Serializes a double bit by bit in a CAF inspect().

#pragma once

#include <bit>
#include <cstdint>

namespace troupe::runtime {

/// Stands for a double that may be infinite or NaN. CAF 0.17 splits doubles by arithmetic: its loop
/// does not end for infinity, and NaN becomes a number.
///
///     double_bits loss(x.loss);
///     return f(x.iteration, *loss);
///
/// Lives for one call of inspect. Writes to the double only after decoding, so several threads may
/// encode the same object at once.
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
