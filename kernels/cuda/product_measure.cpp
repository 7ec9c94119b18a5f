#include "kernels/cuda/candidate_choice.hpp"
#include "kernels/cuda/product.hpp"

#include <algorithm>
#include <limits>

namespace troupe::kernels::cuda {

namespace {

class event {
 public:
  event() { check(cudaEventCreateWithFlags(&handle_, cudaEventBlockingSync), "making an event"); }
  event(const event&) = delete;
  event& operator=(const event&) = delete;
  ~event() { cudaEventDestroy(handle_); }
  cudaEvent_t handle() const { return handle_; }

 private:
  cudaEvent_t handle_ = nullptr;
};

constexpr std::int64_t whole_tiles = 256;  ///< in rows: a multiple of every kernel's tile

/// Rows of the result of a backward_weight that `trial` has room for.
std::int64_t rows_to_try(const product_key& key, std::span<std::byte> trial) {
  const auto rows = std::int64_t(trial.size() / (result_size(key) * std::size_t(key.K)));
  if (rows >= key.N)
    return key.N;
  return rows > whole_tiles ? rows / whole_tiles * whole_tiles : rows;
}

}  // namespace

bool is_refused(cublasStatus_t status, cudaStream_t queue, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS)
    return false;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE)
    return true;
  cudaGetLastError();  // clears the error of a failed launch
  if (cudaStreamSynchronize(queue) != cudaSuccess)
    check(status, what);
  return true;
}

std::size_t cold_bytes() {
  int number = 0, bytes = 0;
  if (cudaGetDevice(&number) != cudaSuccess
      || cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, number) != cudaSuccess) {
    cudaGetLastError();  // clears the error; the next operation reports it
    return 0;
  }
  return std::min(most_cold_bytes, 2 * std::size_t(std::max(bytes, 0)));
}

std::optional<measured_product> measure(const product_key& key,
                                        const product_operands& at,
                                        std::span<const cublasLtMatmulHeuristicResult_t> candidates,
                                        cublasLtHandle_t library,
                                        const trial_memory& in,
                                        double budget,
                                        cudaStream_t queue) {
  const bool adds = key.role == product_role::backward_weight;
  const std::int64_t N = adds ? rows_to_try(key, in.result) : key.N;
  if (N == 0)
    return measured_product{candidates[0].algo};
  product_description what(key, at, N);
  void* const result = adds ? in.result.data() : at.d;
  if (adds)
    check(cudaMemsetAsync(result, 0, result_size(key) * std::size_t(N * key.K), queue),
          "measuring a product");
  const event begin, end;

  // Microseconds of one run; infinity if the library refuses the candidate.
  const auto time = [&](std::size_t candidate) {
    // The host launches while the cache is being evicted, so no host latency falls between the
    // events.
    if (!in.cold.empty())
      check(cudaMemsetAsync(in.cold.data(), 0, in.cold.size(), queue),
            "emptying the cache before a product is measured");
    check(cudaEventRecord(begin.handle(), queue), "measuring a product");
    const auto status = what.run(library, candidates[candidate].algo, result, in.workspace, queue);
    if (is_refused(status, queue, "measuring a product"))
      return std::numeric_limits<double>::infinity();
    check(cudaEventRecord(end.handle(), queue), "measuring a product");
    check(cudaEventSynchronize(end.handle()), "measuring a product");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin.handle(), end.handle()), "measuring a product");
    return 1000.0 * double(milliseconds);
  };
  const auto chosen = fastest_of(candidates.size(), time, budget);
  if (!chosen)
    return std::nullopt;
  return measured_product{candidates[chosen->which].algo, chosen->microseconds};
}

}  // namespace troupe::kernels::cuda
