// Measured speed of matrix products: the basis of utilization figures.

#pragma once

#include "kernels/backend/backend.hpp"

namespace troupe::runtime {

/// FLOP/s of square products in f32 or bf16 (2 per multiply-add): the sum over `workers` concurrent
/// lanes of the fastest product of each. If the lanes have more threads than the machine has cores,
/// the sum is scaled down to the cores. Takes about 0.2 s.
double measured_matrix_rate(kernels::backend where, int workers, int threads, bool in_bf16);

/// FLOP/s of one device of the cuda backend. It multiplies random numbers, because zeros are
/// faster. The side doubles until a product takes at least 1 ms.
double measured_device_rate(int device, bool in_bf16);

}  // namespace troupe::runtime
