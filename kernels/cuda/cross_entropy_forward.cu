#include "kernels/cuda/cross_entropy_sum.cuh"
#include "kernels/cuda/run.hpp"

#include <algorithm>

namespace troupe::kernels::cuda {

namespace {

using namespace cross_entropy;

/// The target's logit, or 0 if it is not in these columns.
template <class T>
__device__ __forceinline__ float logit_of(const cross_entropy_forward<T>& op, std::int64_t r) {
  const std::int64_t target = std::int64_t{op.target[r]} - op.first;
  return target >= 0 && target < op.vocabulary ? to_float(op.logits[r * op.V + target]) : 0.0F;
}

/// Uses double, because for confident predictions the loss is a small difference.
template <class T>
__device__ __forceinline__ void finish(const cross_entropy_forward<T>& op,
                                       std::int64_t r,
                                       const partial_sum& row,
                                       float logit) {
  const double lse = double(row.highest) + log(row.sum);
  if (op.loss)
    op.loss[r] = float(lse - double(logit));
  if (op.lse)
    op.lse[r] = float(lse);
  if (op.target_logit)
    op.target_logit[r] = logit;
}

/// One block per row.
template <class T, int Threads>
__global__ void __launch_bounds__(Threads) forward_rows(const cross_entropy_forward<T> op) {
  for (std::int64_t r = blockIdx.x; r < op.R; r += gridDim.x) {
    const float logit = threadIdx.x == 0 ? logit_of(op, r) : 0;  // early: hides its latency
    const auto row = sum_of<T, Threads>(op.logits + r * op.V, int(op.vocabulary));
    if (threadIdx.x == 0)
      finish(op, r, row, logit);
  }
}

/// One block per `columns` columns of a row; writes to (R, gridDim.y).
template <class T, int Threads>
__global__ void __launch_bounds__(Threads)
    forward_parts(const cross_entropy_forward<T> op, int columns, partial_sum* to) {
  const std::int64_t r = blockIdx.x;
  const int begin = int(blockIdx.y) * columns;
  const auto part
      = sum_of<T, Threads>(op.logits + r * op.V + begin, min(columns, int(op.vocabulary) - begin));
  if (threadIdx.x == 0)
    to[r * gridDim.y + blockIdx.y] = part;
}

template <class T>
__global__ void __launch_bounds__(warp)
    add_parts(const cross_entropy_forward<T> op, const partial_sum* from, int parts) {
  const std::int64_t r = std::int64_t{blockIdx.x} * warp + threadIdx.x;
  if (r >= op.R)
    return;
  from += r * parts;
  partial_sum all{0, -infinity};
  for (int p = 0; p < parts; ++p)
    all.highest = fmaxf(all.highest, from[p].highest);
  for (int p = 0; p < parts; ++p)
    all.sum += from[p].highest == all.highest
                   ? from[p].sum
                   : from[p].sum * exp(double(from[p].highest) - double(all.highest));
  finish(op, r, all, logit_of(op, r));
}

/// Blocks per row: several if there are too few rows to fill a device.
struct forward_plan {
  std::int64_t columns;  ///< per block
  std::int64_t parts;    ///< blocks per row

  template <class T>
  explicit forward_plan(const cross_entropy_forward<T>& op) {
    constexpr std::int64_t enough = 4 * 132, least = 8192, whole = 64;
    const std::int64_t most = ceil_div(op.vocabulary, least);
    const std::int64_t wanted = std::min(most, op.R == 0 ? 1 : ceil_div(enough, op.R));
    columns = ceil_div(ceil_div(op.vocabulary, std::max<std::int64_t>(1, wanted)), whole) * whole;
    parts = op.vocabulary == 0 ? 1 : ceil_div(op.vocabulary, columns);
  }
  std::size_t bytes(std::int64_t R) const {
    return parts > 1 ? std::size_t(R * parts) * sizeof(partial_sum) : 0;
  }
};

template <class T, int Threads>
void forward(const cross_entropy_forward<T>& op, const context& in) {
  const forward_plan plan(op);
  if (plan.parts == 1) {
    launch(in, dim3(blocks_for(op.R, most_blocks)), dim3(Threads), forward_rows<T, Threads>, op);
    return;
  }
  auto* const parts = scratch_array<partial_sum>(in, plan.bytes(op.R));
  launch(in,
         dim3(unsigned(op.R), unsigned(plan.parts)),
         dim3(Threads),
         forward_parts<T, Threads>,
         op,
         plan.columns,
         parts);
  launch(in, dim3(unsigned(ceil_div(op.R, warp))), dim3(warp), add_parts<T>, op, parts, plan.parts);
}

template <class T>
void compute(const cross_entropy_forward<T>& op, const context& in) {
  if (op.vocabulary <= 1024)
    forward<T, 32>(op, in);
  else if (op.vocabulary <= 8192)
    forward<T, 128>(op, in);
  else
    forward<T, 256>(op, in);
}

}  // namespace

template <class T>
std::size_t scratch(const cross_entropy_forward<T>& op) {
  return forward_plan(op).bytes(op.R);
}

#define TROUPE_DEFINE(T)                                            \
  template <>                                                       \
  void run(const cross_entropy_forward<T>& op, const context& in) { \
    compute(op, in);                                                \
  }                                                                 \
  template std::size_t scratch(const cross_entropy_forward<T>&);
TROUPE_DEFINE(float)
TROUPE_DEFINE(bf16)
TROUPE_DEFINE(f16)
#undef TROUPE_DEFINE

}  // namespace troupe::kernels::cuda
