// Tolerances for results of devices, beyond the rounding of the result, with their reasons. They
// hold for real devices. With TROUPE_EMULATED_COARSE=1 the emulated device is at least as inexact,
// and the kernel tests also run in that mode (tests/device.cmake).

#pragma once

#include "kernels/op/f16.hpp"

#include <cmath>
#include <cstdint>

namespace troupe::tests {

inline constexpr double rounding_of_floats = 0x1p-24;

enum class signs : std::uint8_t {
  both,  ///< terms are as often above zero as below
  one,
};

/// Error bound of a sum of n products of narrow factors on tensor cores, in roundings of float
/// relative to the largest result.
///
/// Tensor cores add blocks of 4 to 16 products (Fasi, Higham, Mikaitis, Pranesh: "Numerical
/// behavior of NVIDIA tensor cores", 2021). They align the exact products and the accumulator to
/// the largest and truncate after 24 bits; newer devices keep one or two more. So each product
/// loses less than a unit in the last place of the largest: two roundings, towards zero. The
/// accumulator loses as much again after each block. With blocks of at least 8 that is 2 n / 8 in
/// all, in one direction while the sum keeps its sign. The loss of a product has the sign of the
/// product:
///
///   both signs   the error is a random walk with a deviation of 2 / sqrt(3) per step; four
///                deviations after n steps are below 5 sqrt(n)
///   one sign     the errors add up: below 2 n
inline double roundings_on_tensor_cores(std::int64_t n, signs of_terms = signs::both) {
  const double of_products = of_terms == signs::both ? 5 * std::sqrt(double(n)) : 2 * double(n);
  return of_products + 2 * std::ceil(double(n) / 8);
}

/// The relative error of tanh.approx (PTX ISA). cuBLASLt's GELU may use it; NVIDIA does not
/// document this.
inline constexpr double error_of_tanh = 0x1p-11;

/// Amplification of that error in the slope of GELU at z. The slope is
/// (1 + t) / 2 + z (1 - t^2) u' / 2 with t = tanh u, so an error e of t becomes e (1 / 2 - z t u').
/// From |z| = 3.5 on, t is nearer to 1 than e and rounds to 1; below that |z t u'| is below 7.5.
inline constexpr double tanh_errors_of_slope = 8;
/// Amplification in GELU itself, z (1 + t) / 2, relative to z.
inline constexpr double tanh_errors_of_gelu = 0.5;

/// In roundings of float relative to the largest result. That result is about as large as the
/// largest sum that the slope multiplies.
inline constexpr double roundings_of_gelu_slope
    = tanh_errors_of_slope * error_of_tanh / rounding_of_floats;

/// Error bound of our attention on tensor cores, relative to the largest result. The kernels round
/// weights and their gradients to 16 bits before each product, and the result once more; the scalar
/// kernels round only the result. A rounding is half a step of the rounded number, but a whole step
/// of the largest result where larger terms cancel in it: two steps. Truncation in tensor cores
/// over 2,000 keys is below 5e-5 (roundings_on_tensor_cores), a tenth of a rounding to f16. Half a
/// rounding for each of the two chained products covers it.
template <class T>
inline constexpr double roundings_of_attention = 3 * 0x1p-8;
template <>
inline constexpr double roundings_of_attention<kernels::f16> = 3 * 0x1p-11;

/// Error bound of its log-sum-exp. Scores are sums of up to 256 products, in which tensor cores
/// lose 9e-6 of the largest; sums in fp32 and the device's exp2 and log2 follow.
inline constexpr double error_of_log_sum_exp = 2e-5;

}  // namespace troupe::tests
