// Device memory and a device stream for tests of kernels. Uses only the CUDA runtime; tests link
// the emulated device (tests/emulator), with a chosen order of execution and chosen delays.
//
//   device_array<float> x(host_x), y(n);         // y is poisoned
//   run_on_device(norm_forward<float>{.y = y.data(), .x = x.data(), ...});
//   CHECK(relative_error(y.download(), expected) < ...);
//
// Device errors throw std::runtime_error. A test that breaks the device calls cudaDeviceReset at
// its end; arrays from before that call are invalid.

#pragma once

#include "kernels/cuda/run.hpp"
#include "tests/emulator/control.hpp"

#include <cuda_runtime.h>

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace troupe::tests {

inline void must(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorName(status));
}

/// The device's name according to the driver.
inline std::string device_name() {
  cudaDeviceProp device = {};
  must(cudaGetDeviceProperties(&device, 0), "asking for a device's properties");
  return device.name;
}

/// Copies and waits: the driver may still read `from` when cudaMemcpy returns, and the streams of
/// the tests do not wait for the default stream.
inline void copy_to_device(void* to, const void* from, std::size_t bytes, const char* what) {
  must(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), what);
  must(cudaStreamSynchronize(nullptr), what);
}

/// n elements of device memory, aligned to 256 bytes. With `shift` they begin that many elements
/// later, so that vector loads are misaligned.
template <class T>
class device_array {
 public:
  explicit device_array(std::size_t n, std::size_t shift = 0) : n_(n), shift_(shift) {
    if (n + shift > 0)
      must(cudaMalloc(&at_, (n + shift) * sizeof(T)), "cudaMalloc");
    poison();
  }

  explicit device_array(std::span<const T> from, std::size_t shift = 0)
      : device_array(from.size(), shift) {
    upload(from);
  }
  explicit device_array(const std::vector<T>& from, std::size_t shift = 0)
      : device_array(std::span<const T>(from), shift) {}

  device_array(device_array&& from) noexcept
      : at_(std::exchange(from.at_, nullptr)), n_(std::exchange(from.n_, 0)), shift_(from.shift_) {}
  device_array& operator=(device_array&& from) noexcept {
    std::swap(at_, from.at_);
    std::swap(n_, from.n_);
    std::swap(shift_, from.shift_);
    return *this;
  }
  ~device_array() {
    if (at_ != nullptr)
      cudaFree(at_);
  }

  T* data() { return at_ + shift_; }
  const T* data() const { return at_ + shift_; }
  std::size_t size() const { return n_; }

  void upload(std::span<const T> from) {
    if (from.size() != n_)
      throw std::logic_error("device_array::upload: the sizes differ");
    if (n_ > 0)
      copy_to_device(data(), from.data(), n_ * sizeof(T), "uploading");
  }

  /// Waits for the whole device first.
  std::vector<T> download() const {
    must(cudaDeviceSynchronize(), "waiting for the device");
    std::vector<T> to(n_);
    if (n_ > 0)
      must(cudaMemcpy(to.data(), data(), n_ * sizeof(T), cudaMemcpyDeviceToHost), "downloading");
    return to;
  }

  /// Fills the memory with a pattern that is NaN as a float and no valid index.
  void poison() {
    if (at_ == nullptr)
      return;
    const std::vector<std::uint16_t> nonsense((n_ + shift_) * sizeof(T) / 2 + 1, 0xffa5);
    copy_to_device(at_, nonsense.data(), (n_ + shift_) * sizeof(T), "poisoning");
  }

 private:
  T* at_ = nullptr;
  std::size_t n_ = 0;
  std::size_t shift_ = 0;
};

/// A stream and the contexts for operations on it.
class device_queue {
 public:
  device_queue() {
    must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
  }
  ~device_queue() { cudaStreamDestroy(stream_); }
  device_queue(const device_queue&) = delete;
  device_queue& operator=(const device_queue&) = delete;

  cudaStream_t stream() const { return stream_; }
  kernels::context context(std::span<std::byte> workspace = {}) const {
    return {.workspace = workspace, .queue = stream_};
  }
  void wait() const { must(cudaStreamSynchronize(stream_), "waiting for a stream"); }

 private:
  cudaStream_t stream_ = nullptr;
};

template <class Op>
std::size_t scratch_on_device(const Op& op) {
  if constexpr (requires { kernels::cuda::scratch(op); })
    return kernels::cuda::scratch(op);
  else
    return 0;
}

/// Runs the operation with a poisoned workspace of exactly the size that it declares, and waits.
template <class Op>
void run_on_device(const Op& op) {
  const device_queue queue;
  device_array<std::byte> workspace(scratch_on_device(op));
  kernels::cuda::run(op, queue.context({workspace.data(), workspace.size()}));
  queue.wait();
}

/// Sets the seed of the emulated order of execution for its lifetime.
class emulated_seed {
 public:
  explicit emulated_seed(int seed) { emulator::set_seed(std::uint64_t(seed)); }
  ~emulated_seed() { emulator::set_seed(1); }
  emulated_seed(const emulated_seed&) = delete;
  emulated_seed& operator=(const emulated_seed&) = delete;
};

/// Streams sleep up to `us` microseconds before each item during its lifetime.
class emulated_delay {
 public:
  explicit emulated_delay(int us) { emulator::set_delay(std::uint64_t(us)); }
  ~emulated_delay() { emulator::set_delay(0); }
  emulated_delay(const emulated_delay&) = delete;
  emulated_delay& operator=(const emulated_delay&) = delete;
};

}  // namespace troupe::tests
