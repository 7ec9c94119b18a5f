// Sums over rows, of 32 columns by one block: threads are (row lane, column).

#pragma once

#include "kernels/cuda/device.cuh"

namespace troupe::kernels::cuda {

constexpr int columns = 32, row_lanes = 32;

/// Sum over the row lanes of a block, in order, for each of its columns.
__device__ __forceinline__ double sum_of_lanes(double mine) {
  __shared__ double part[row_lanes][columns + 1];
  const int column = int(threadIdx.x) % columns, lane = int(threadIdx.x) / columns;
  __syncthreads();  // all threads have read the previous sums
  part[lane][column] = mine;
  __syncthreads();
  double sum = 0;
  for (int i = 0; i < row_lanes; ++i)
    sum += part[i][column];
  return sum;
}

}  // namespace troupe::kernels::cuda
