// Random numbers as pure functions of names and positions.
//
// A number is keyed by (seed, full name of the parameter or operation, step) and counted by its
// position in the unsharded tensor: no layout, device, order or number of threads changes it.

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace troupe::runtime {

/// The key of everything called `name` in `step`. Initial weights are of step 0.
std::uint64_t random_key(std::uint64_t seed, std::string_view name, std::uint64_t step);

/// Element `index` of an endless array of standard normal numbers. Only additions,
/// multiplications, divisions and square roots of IEEE doubles are used, without contraction, so
/// that every machine gets the same bits.
///
/// Philox4x32-10; Wichura: "Algorithm AS 241: The percentage points of the normal distribution",
/// Applied Statistics 37, 1988.
double standard_normal(std::uint64_t key, std::uint64_t index);

/// Elements `first`, ... of that array, the same bits: several times faster than one by one.
void standard_normals(std::uint64_t key, std::uint64_t first, std::span<double> to);

/// The value below which a standard normal number lies with probability `p`, 0 < p < 1.
double normal_quantile(double p);

/// Element `index` of an endless array of numbers uniform in [0, 1).
double uniform(std::uint64_t key, std::uint64_t index);

}  // namespace troupe::runtime
