#include "kernels/cuda/product.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace troupe::kernels::cuda {

namespace {

constexpr double enough_microseconds = 300;  ///< in which an event's half a microsecond is nothing
constexpr int most_repeats = 20;
constexpr int rounds = 3;
constexpr double alike = 1.02;

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

constexpr std::int64_t whole_tiles = 256;  ///< rows: of no kernel's tile there is a part

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
  cudaGetLastError();  // what a launch that was not made leaves behind: not for the next call
  if (cudaStreamSynchronize(queue) != cudaSuccess)
    check(status, what);
  return true;
}

std::optional<measured_product> measure(const product_key& key,
                                        const product_operands& at,
                                        std::span<const cublasLtMatmulHeuristicResult_t> candidates,
                                        cublasLtHandle_t library,
                                        void* workspace,
                                        std::span<std::byte> trial,
                                        cudaStream_t queue) {
  const bool adds = key.role == product_role::backward_weight;
  const std::int64_t N = adds ? rows_to_try(key, trial) : key.N;
  if (N == 0)
    return measured_product{candidates[0].algo};
  product_description what(key, at, N);
  void* const result = adds ? trial.data() : at.d;
  if (adds)
    check(cudaMemsetAsync(result, 0, result_size(key) * std::size_t(N * key.K), queue),
          "measuring a product");
  const event begin, end;

  // Microseconds of one run; infinite where the library proposes what it then refuses.
  const auto time = [&](int candidate, int repeats) {
    check(cudaEventRecord(begin.handle(), queue), "measuring a product");
    for (int i = 0; i < repeats; ++i) {
      const auto status
          = what.run(library, candidates[std::size_t(candidate)].algo, result, workspace, queue);
      if (is_refused(status, queue, "measuring a product"))
        return std::numeric_limits<double>::infinity();
    }
    check(cudaEventRecord(end.handle(), queue), "measuring a product");
    check(cudaEventSynchronize(end.handle()), "measuring a product");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin.handle(), end.handle()), "measuring a product");
    return 1000.0 * double(milliseconds) / repeats;
  };

  std::vector<double> best(candidates.size());
  for (std::size_t c = 0; c < best.size(); ++c) {
    time(int(c), 1);  // loads the kernel
    best[c] = time(int(c), 1);
  }
  const double first = *std::min_element(best.begin(), best.end());
  if (!std::isfinite(first))
    return std::nullopt;
  const int repeats
      = int(std::clamp(enough_microseconds / std::max(first, 1.0), 1.0, double(most_repeats)));
  // In rounds, so that a clock that sinks meanwhile is everybody's.
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t c = 0; c < best.size(); ++c) {
      if (std::isfinite(best[c]))
        best[c] = std::min(best[c], time(int(c), repeats));
    }
  }
  const double fastest = *std::min_element(best.begin(), best.end());
  const auto chosen
      = std::find_if(best.begin(), best.end(), [&](double t) { return t <= alike * fastest; });
  return measured_product{candidates[std::size_t(chosen - best.begin())].algo, *chosen};
}

}  // namespace troupe::kernels::cuda
