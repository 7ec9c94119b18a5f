// Kernels that fill a matrix with a bias or add one to it, for products that cuBLASLt cannot do.

#pragma once

#include "kernels/op/context.hpp"

namespace troupe::kernels::cuda {

/// Sets every row of y (R, N) to the bias (N), or to 0 if it is null.
template <class T>
void fill_rows(T* y, const T* bias, std::int64_t R, std::int64_t N, const context& in);

/// Adds the bias (N) to every row of y (R, N).
template <class T>
void add_rows(T* y, const T* bias, std::int64_t R, std::int64_t N, const context& in);

}  // namespace troupe::kernels::cuda
