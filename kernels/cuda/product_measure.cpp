#include "kernels/cuda/product.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
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

/// A copy of what a product adds to, gone with the queue's turn.
class copy_on_queue {
 public:
  copy_on_queue(const void* from, std::size_t bytes, cudaStream_t queue, const std::string& name)
      : queue_(queue) {
    const auto status = cudaMallocAsync(&data_, bytes, queue);
    if (status != cudaSuccess) {
      cudaGetLastError();
      throw device_failure("measuring the product '" + name + "' needs a copy of its result, "
                           + std::to_string(bytes)
                           + " bytes on the device: " + cudaGetErrorString(status)
                           + ". Give it the choices of another run, or do not measure");
    }
    copied_ = cudaMemcpyAsync(data_, from, bytes, cudaMemcpyDeviceToDevice, queue);
  }
  copy_on_queue(const copy_on_queue&) = delete;
  copy_on_queue& operator=(const copy_on_queue&) = delete;
  ~copy_on_queue() { cudaFreeAsync(data_, queue_); }
  void* data() const {
    check(copied_, "copying the result of a product, to measure");
    return data_;
  }

 private:
  void* data_ = nullptr;
  cudaError_t copied_ = cudaSuccess;
  cudaStream_t queue_;
};

}  // namespace

measured_product measure(product_description& what,
                         const product_key& key,
                         const product_operands& at,
                         std::span<const cublasLtMatmulHeuristicResult_t> candidates,
                         cublasLtHandle_t library,
                         void* workspace,
                         cudaStream_t queue,
                         const std::string& name) {
  std::optional<copy_on_queue> copy;
  if (key.role == product_role::backward_weight)
    copy.emplace(at.d, result_size(key) * std::size_t(key.N * key.K), queue, name);
  void* const result = copy ? copy->data() : at.d;
  const event begin, end;

  // Microseconds of one run; infinite where the library proposes what it then refuses.
  const auto time = [&](int candidate, int repeats) {
    check(cudaEventRecord(begin.handle(), queue), "measuring a product");
    for (int i = 0; i < repeats; ++i) {
      const auto status
          = what.run(library, candidates[std::size_t(candidate)].algo, result, workspace, queue);
      if (status == CUBLAS_STATUS_NOT_SUPPORTED)
        return std::numeric_limits<double>::infinity();
      check(status, "measuring a product");
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
    throw device_failure("cuBLASLt refuses all " + std::to_string(best.size())
                         + " algorithms that it proposes for the product '" + name + "'");
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
  return {candidates[std::size_t(chosen - best.begin())].algo, *chosen};
}

}  // namespace troupe::kernels::cuda
