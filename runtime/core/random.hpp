// Counter-based random numbers: pure functions of a key and a position.
//
// The key is (seed, full name of the parameter or operation, step); the position is that in the
// unsharded tensor. So layout, device, order and number of threads do not change a number.

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace troupe::runtime {

/// The key of `name` in `step`. Initial weights use step 0.
std::uint64_t random_key(std::uint64_t seed, std::string_view name, std::uint64_t step);

/// Element `index` of an infinite array of standard normal numbers. Uses only additions,
/// multiplications, divisions and square roots of IEEE doubles without contraction, so all machines
/// get the same bits.
///
/// Philox4x32-10; Wichura: "Algorithm AS 241: The percentage points of the normal distribution",
/// Applied Statistics 37, 1988.
double standard_normal(std::uint64_t key, std::uint64_t index);

/// Elements from `first` on of that array, with the same bits; several times faster than single
/// calls.
void standard_normals(std::uint64_t key, std::uint64_t first, std::span<double> to);

/// Inverse of the standard normal distribution function, 0 < p < 1.
double normal_quantile(double p);

/// Element `index` of an infinite array of uniform numbers in [0, 1).
double uniform(std::uint64_t key, std::uint64_t index);

/// Those numbers in [first, last).
double uniform_between(std::uint64_t key, std::uint64_t index, double first, double last);

/// Numbers whose logarithm is uniform, in [first, last]; 0 < first. Same bits on all machines, as
/// for standard_normal.
double log_uniform_between(std::uint64_t key, std::uint64_t index, double first, double last);

}  // namespace troupe::runtime
