// What results of devices may be wrong by, beside what they are rounded to, and why. Nothing here
// is the emulated device's own: with TROUPE_EMULATED_COARSE=1 it is at least as wrong as a device,
// and the tests of kernels run on it so, too (tests/device.cmake).

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

/// What a sum of n products of narrow factors loses on tensor cores, in roundings of float relative
/// to the largest result.
///
/// They add in blocks of 4 to 16 products (Fasi, Higham, Mikaitis, Pranesh: "Numerical behavior of
/// NVIDIA tensor cores", 2021): the products, which are exact, and what is there already are
/// aligned to the largest and cut off behind 24 bits, on newer devices one or two later. So each
/// product loses less than a unit in the last place of the largest, two roundings, towards zero,
/// and what is there, cut off after each block, as much again: in blocks of at least 8, 2 n / 8 in
/// all, and always in one direction while the sum keeps its sign. What products lose has their
/// sign:
///
///   both signs   it walks at random, in steps with a deviation of 2 / sqrt(3); four deviations of
///                n steps are below 5 sqrt(n)
///   one sign     it adds up: below 2 n
inline double roundings_on_tensor_cores(std::int64_t n, signs of_terms = signs::both) {
  const double of_products = of_terms == signs::both ? 5 * std::sqrt(double(n)) : 2 * double(n);
  return of_products + 2 * std::ceil(double(n) / 8);
}

/// The relative error of tanh.approx (PTX ISA), which cuBLASLt's GELU may use: it does not say.
inline constexpr double error_of_tanh = 0x1p-11;

/// How much of that error GELU's slope at z has: the slope is (1 + t) / 2 + z (1 - t^2) u' / 2 with
/// t = tanh u, so that an error e of t is e (1 / 2 - z t u'). Where t is nearer to 1 than e, as
/// from |z| = 3.5 on, it is 1; up to there |z t u'| is below 7.5.
inline constexpr double tanh_errors_of_slope = 8;
/// And GELU itself, z (1 + t) / 2, relative to z.
inline constexpr double tanh_errors_of_gelu = 0.5;

/// In roundings of float relative to the largest result, which is about as large as the largest
/// sum that the slope comes to.
inline constexpr double roundings_of_gelu_slope
    = tanh_errors_of_slope * error_of_tanh / rounding_of_floats;

/// Our attention on tensor cores, relative to the largest result. Weights and their gradients are
/// rounded to 16 bits before they are multiplied, and the result once more; the scalar kernels have
/// the last only. A rounding is half a step of what is rounded, and a whole one of the largest
/// result where larger terms cancel in it: two of them. What tensor cores cut off of a sum over
/// 2,000 keys is below 5e-5 (roundings_on_tensor_cores), a tenth of a rounding to f16; half a
/// rounding for each of the two products that follow one another has room for it.
template <class T>
inline constexpr double roundings_of_attention = 3 * 0x1p-8;
template <>
inline constexpr double roundings_of_attention<kernels::f16> = 3 * 0x1p-11;

/// And its log-sum-exp: scores are sums of up to 256 products, of which tensor cores cut off 9e-6
/// of the largest; then come sums in fp32 and a device's exp2 and log2.
inline constexpr double error_of_log_sum_exp = 2e-5;

}  // namespace troupe::tests
