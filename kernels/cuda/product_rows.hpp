// Products of nothing: a sum of no terms is the bias.

#pragma once

#include "kernels/op/context.hpp"

namespace troupe::kernels::cuda {

/// Every row of y (R, N) becomes the bias (N), or 0 where that is null.
template <class T>
void fill_rows(T* y, const T* bias, std::int64_t R, std::int64_t N, const context& in);

}  // namespace troupe::kernels::cuda
