// How fast the machine multiplies matrices: what a throughput is a share of.

#pragma once

#include "kernels/backend/backend.hpp"

namespace troupe::runtime {

/// FLOP a second of square products (two for each multiplication and addition) by `workers` lanes
/// of `threads` at the same time, in f32 or bf16: the sum of the fastest that each has seen;
/// where they are more than the machine's cores, the cores' part of it. Takes about a fifth of a
/// second.
double measured_matrix_rate(kernels::backend where, int workers, int threads, bool in_bf16);

/// The same of one device of the cuda backend, on random numbers (zeros are faster): the sides
/// double until a product takes some milliseconds.
double measured_device_rate(int device, bool in_bf16);

}  // namespace troupe::runtime
