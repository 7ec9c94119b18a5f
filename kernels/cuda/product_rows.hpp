// Rows of a bias: what a product of nothing is, and what is added to one.

#pragma once

#include "kernels/op/context.hpp"

namespace troupe::kernels::cuda {

/// Every row of y (R, N) becomes the bias (N), or 0 where that is null.
template <class T>
void fill_rows(T* y, const T* bias, std::int64_t R, std::int64_t N, const context& in);

/// The bias (N) is added to every row of y (R, N).
template <class T>
void add_rows(T* y, const T* bias, std::int64_t R, std::int64_t N, const context& in);

}  // namespace troupe::kernels::cuda
