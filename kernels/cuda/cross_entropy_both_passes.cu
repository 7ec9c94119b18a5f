#include "kernels/cuda/cross_entropy_slope.cuh"
#include "kernels/cuda/cross_entropy_sum.cuh"
#include "kernels/cuda/run.hpp"

namespace troupe::kernels::cuda {

namespace {

using namespace cross_entropy;

// One block reads a row twice, the second time mostly from a cache. With 200 KB per multiprocessor
// the rows in flight take 26 MB, about half of an H100's L2 cache. So a long row has a block of 768
// threads, two blocks per multiprocessor: one computes while the other waits.
//
// The gradient pass reads the row from its end. The part that was read last is then still in the L1
// cache. On average only half of the data in flight lies between the two reads of a byte.
constexpr int most_threads = 768;

/// Vectors in flight per thread: two blocks leave 40 registers per thread.
template <int Threads>
constexpr int at_a_time = Threads == most_threads ? 2 : ahead;

template <class T, int Threads>
__global__ void __launch_bounds__(Threads, Threads == most_threads ? 2 : 1)
    both_passes_of_rows(const cross_entropy_both_passes<T> op, int parts) {
  __shared__ float lse_of_row;
  for (std::int64_t r = blockIdx.x; r < op.R; r += gridDim.x) {
    const T* const logits = op.logits + r * op.V;
    const std::int64_t target = op.target[r];
    // Read before any thread writes; the barrier is below.
    const float logit = threadIdx.x == 0 && target >= 0 && target < op.vocabulary
                            ? to_float(logits[target])
                            : 0.0F;
    const auto row = sum_of<T, Threads>(logits, int(op.vocabulary));
    if (threadIdx.x == 0) {
      // Uses double, because for confident predictions the loss is a small difference.
      const double lse = double(row.highest) + log(row.sum);
      op.loss[r] = float(lse - double(logit));
      op.lse[r] = lse_of_row = float(lse);
    }
    __syncthreads();
    const row_gradient<T, wide<T>> gradient(
        logits, op.dlogits + r * op.V, op.V, op.vocabulary, target, {lse_of_row, op.dloss[r]});
    for (int part = parts - 1; part >= 0; --part)
      gradient.template write<Threads, at_a_time<Threads>>(part, parts);
  }
}

template <class T, int Threads>
void both_passes(const cross_entropy_both_passes<T>& op, const context& in) {
  launch(in,
         dim3(blocks_for(op.R, most_blocks)),
         dim3(Threads),
         both_passes_of_rows<T, Threads>,
         op,
         gradient_parts<wide<T>, Threads, at_a_time<Threads>>(op.V));
}

template <class T>
void compute(const cross_entropy_both_passes<T>& op, const context& in) {
  // Few long rows: the forward pass uses several blocks per row. The data, some tens of megabytes
  // at most, is still in the L2 cache for the backward pass.
  const bool few = op.R < processors && op.vocabulary > 8192;
  if (few || !begin_alike(op.logits, op.dlogits)) {
    run(forward_of(op), in);
    run(backward_of(op), in);
    return;
  }
  const auto bytes = op.V * std::int64_t{sizeof(T)};
  if (bytes <= 4096)
    both_passes<T, 32>(op, in);
  else if (bytes <= 32768)
    both_passes<T, 256>(op, in);
  else
    both_passes<T, most_threads>(op, in);
}

}  // namespace

template <class T>
std::size_t scratch(const cross_entropy_both_passes<T>& op) {
  return scratch(forward_of(op));
}

#define TROUPE_DEFINE(T)                                                \
  template <>                                                           \
  void run(const cross_entropy_both_passes<T>& op, const context& in) { \
    compute(op, in);                                                    \
  }                                                                     \
  template std::size_t scratch(const cross_entropy_both_passes<T>&);
TROUPE_DEFINE(float)
TROUPE_DEFINE(bf16)
TROUPE_DEFINE(f16)
#undef TROUPE_DEFINE

}  // namespace troupe::kernels::cuda
