// Tests of the emulated CUDA runtime: streams.hpp, memory.hpp, events.cpp.

#include "tests/emulator/faults.hpp"
#include "tests/support/emulated.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cuda_runtime.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace troupe;
using namespace troupe::tests;

namespace {

/// Pinned host memory.
template <class T>
class pinned_array {
 public:
  explicit pinned_array(std::size_t n) { must(cudaMallocHost(&at_, n * sizeof(T)), "pinning"); }
  ~pinned_array() { cudaFreeHost(at_); }
  pinned_array(const pinned_array&) = delete;
  pinned_array& operator=(const pinned_array&) = delete;
  T* data() { return at_; }
  T& operator[](std::size_t i) { return at_[i]; }

 private:
  T* at_ = nullptr;
};

class event {
 public:
  explicit event(unsigned flags = cudaEventDisableTiming) {
    must(cudaEventCreateWithFlags(&is_, flags), "creating an event");
  }
  ~event() { cudaEventDestroy(is_); }
  event(const event&) = delete;
  event& operator=(const event&) = delete;
  operator cudaEvent_t() const { return is_; }

 private:
  cudaEvent_t is_ = nullptr;
};

__global__ void add_one(int* x, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n)
    x[i] += 1;
}

/// Not instrumented: AddressSanitizer would end the process at the write.
__attribute__((no_sanitize_address)) __global__ void past_the_end(char* x, int at) {
  x[at] = 1;
}

void add_one_on(cudaStream_t stream, device_array<int>& x) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(unsigned(x.size() + 63) / 64);
  config.blockDim = 64;
  config.stream = stream;
  must(cudaLaunchKernelEx(&config, add_one, x.data(), int(x.size())), "launching add_one");
}

/// Blocks a stream until `open` is set.
struct gate {
  std::atomic<bool> open = false;

  void block(cudaStream_t stream) {
    must(cudaLaunchHostFunc(
             stream,
             [](void* self) {
               while (!static_cast<gate*>(self)->open)
                 std::this_thread::sleep_for(std::chrono::microseconds(100));
             },
             this),
         "cudaLaunchHostFunc");
  }
};

}  // namespace

TEST_CASE("the host cannot read device memory") {
  device_array<int> x(std::vector<int>(1000, 7));
  must(cudaDeviceSynchronize(), "waiting");
  CHECK_FALSE(emulator::host_can_read(x.data()));
  CHECK(x.download() == std::vector<int>(1000, 7));
}

TEST_CASE("a host read of device memory ends the process with an explanation") {
  device_array<int> x(std::vector<int>(1, 7));
  must(cudaDeviceSynchronize(), "waiting");
  int ends[2] = {};
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], 2);
    ::signal(SIGSEGV, SIG_DFL);  // no report of Catch2 in the child
    emulator::explain_faults();
    const volatile int* const at = x.data();
    ::_exit(*at == 7 ? 0 : 1);
  }
  ::close(ends[1]);
  std::string said;
  char part[256];
  for (ssize_t n = 0; (n = ::read(ends[0], part, sizeof part)) > 0;)
    said.append(part, std::size_t(n));
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK_FALSE((WIFEXITED(status) && WEXITSTATUS(status) <= 1 && said.empty()));
  CHECK(said.find("the host touches device memory") != std::string::npos);
}

TEST_CASE("unwritten and freed device memory is poisoned") {
  void* at = nullptr;
  REQUIRE(cudaMalloc(&at, 1 << 19) == cudaSuccess);
  const std::vector<std::uint16_t> nonsense(1 << 18, 0xffa5);
  std::vector<std::uint16_t> host(nonsense.size());
  REQUIRE(cudaMemcpy(host.data(), at, 1 << 19, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(host == nonsense);
  std::fill(host.begin(), host.end(), 1);
  REQUIRE(cudaMemcpy(at, host.data(), 1 << 19, cudaMemcpyHostToDevice) == cudaSuccess);
  REQUIRE(cudaFree(at) == cudaSuccess);
  REQUIRE(cudaMalloc(&at, 1 << 19) == cudaSuccess);
  REQUIRE(cudaMemcpy(host.data(), at, 1 << 19, cudaMemcpyDefault) == cudaSuccess);
  CHECK(host == nonsense);
  CHECK(cudaFree(at) == cudaSuccess);
  CHECK(cudaFree(at) == cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_CASE("a host that does not wait for a copy reads the old data") {
  device_queue queue;
  device_array<int> x(std::vector<int>(100, 7));
  pinned_array<int> to(100);
  std::fill_n(to.data(), 100, 0);
  gate held;
  held.block(queue.stream());
  REQUIRE(cudaMemcpyAsync(to.data(), x.data(), 400, cudaMemcpyDeviceToHost, queue.stream())
          == cudaSuccess);
  CHECK(to[0] == 0);
  CHECK(cudaStreamQuery(queue.stream()) == cudaErrorNotReady);
  held.open = true;
  queue.wait();
  CHECK(to[0] == 7);
  CHECK(cudaStreamQuery(queue.stream()) == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("a copy reads pageable memory before it returns, pinned memory in stream order") {
  device_queue queue;
  device_array<int> from_pageable(1), from_pinned(1);
  int pageable = 1;
  pinned_array<int> pinned(1);
  pinned[0] = 1;
  gate held;
  held.block(queue.stream());
  const auto copy = [&](int* to, const int* from) {
    must(cudaMemcpyAsync(to, from, 4, cudaMemcpyHostToDevice, queue.stream()), "copying");
  };
  copy(from_pageable.data(), &pageable);
  copy(from_pinned.data(), pinned.data());
  pageable = 2;
  pinned[0] = 2;
  held.open = true;
  CHECK(from_pageable.download().front() == 1);
  CHECK(from_pinned.download().front() == 2);
}

TEST_CASE("an event orders two streams; without it they do not wait") {
  const bool with_event = GENERATE(false, true);
  device_queue writer, reader;
  device_array<int> x(std::vector<int>(64, 0)), seen(64);
  const event written;
  gate held;
  held.block(writer.stream());
  add_one_on(writer.stream(), x);
  REQUIRE(cudaEventRecord(written, writer.stream()) == cudaSuccess);
  CHECK(cudaEventQuery(written) == cudaErrorNotReady);
  if (with_event)
    REQUIRE(cudaStreamWaitEvent(reader.stream(), written) == cudaSuccess);
  must(cudaMemcpyAsync(seen.data(), x.data(), 256, cudaMemcpyDefault, reader.stream()), "copying");
  if (!with_event)
    reader.wait();
  held.open = true;
  CHECK(seen.download() == std::vector<int>(64, with_event ? 1 : 0));
  CHECK(cudaEventQuery(written) == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("a stream runs its items in order, with any delays") {
  const emulated_delay delay(300);
  device_queue queue;
  device_array<int> x(std::vector<int>(130, 0));
  for (int i = 0; i < 20; ++i)
    add_one_on(queue.stream(), x);
  CHECK(x.download() == std::vector<int>(130, 20));
}

TEST_CASE("the null stream and all blocking streams wait for each other") {
  const unsigned flags = GENERATE(unsigned{cudaStreamDefault}, unsigned{cudaStreamNonBlocking});
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, flags) == cudaSuccess);
  device_array<int> x(std::vector<int>(1, 0));
  must(cudaDeviceSynchronize(), "waiting");
  gate held;
  held.block(stream);
  add_one_on(nullptr, x);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));  // a longer sleep is a stricter check
  CHECK((flags == cudaStreamNonBlocking || cudaStreamQuery(nullptr) == cudaErrorNotReady));
  if (flags == cudaStreamNonBlocking)
    CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
  held.open = true;
  add_one_on(stream, x);
  CHECK(x.download().front() == 2);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamQuery(stream) == cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

TEST_CASE("the time between two events is measured only for events with timing") {
  device_queue queue;
  const event start(cudaEventDefault), end(cudaEventDefault), untimed;
  float ms = -1;
  REQUIRE(cudaEventRecord(start, queue.stream()) == cudaSuccess);
  cudaLaunchHostFunc(
      queue.stream(),
      [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(3)); },
      nullptr);
  REQUIRE(cudaEventRecord(end, queue.stream()) == cudaSuccess);
  REQUIRE(cudaEventRecord(untimed, queue.stream()) == cudaSuccess);
  REQUIRE(cudaEventSynchronize(untimed) == cudaSuccess);
  REQUIRE(cudaEventElapsedTime(&ms, start, end) == cudaSuccess);
  CHECK(ms >= 3);
  CHECK(cudaEventElapsedTime(&ms, start, untimed) == cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

TEST_CASE("device memory is limited, and freed memory can be allocated again") {
  std::size_t free = 0, total = 0;
  REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
  void *large = nullptr, *more = nullptr;
  REQUIRE(cudaMalloc(&large, free - 1000) == cudaSuccess);
  CHECK(cudaMalloc(&more, 1001) == cudaErrorMemoryAllocation);
  CHECK(more == nullptr);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  REQUIRE(cudaMalloc(&more, 1000) == cudaSuccess);
  std::size_t left = 1;
  CHECK(cudaMemGetInfo(&left, &total) == cudaSuccess);
  CHECK(left == 0);
  CHECK(cudaFree(large) == cudaSuccess);
  CHECK(cudaFree(more) == cudaSuccess);
  CHECK(cudaMemGetInfo(&left, &total) == cudaSuccess);
  CHECK(left == free);
}

TEST_CASE("freeing an allocation detects a kernel's write behind its end") {
  char* at = nullptr;
  REQUIRE(cudaMalloc(&at, 100) == cudaSuccess);
  cudaLaunchConfig_t config = {};
  config.gridDim = config.blockDim = 1;
  REQUIRE(cudaLaunchKernelEx(&config, past_the_end, at, 100) == cudaSuccess);
  CHECK(cudaFree(at) == cudaErrorIllegalAddress);
  cudaDeviceReset();
}

TEST_CASE("copies outside of allocations or with a wrong direction are refused") {
  device_array<int> x(16);
  int host[32] = {};
  CHECK(cudaMemcpy(x.data(), host, 65, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(x.data() + 1, host, 64, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(x.data(), host, 64, cudaMemcpyDeviceToHost) == cudaErrorInvalidMemcpyDirection);
  CHECK(cudaMemset(host, 0, 4) == cudaErrorInvalidValue);
  CHECK(cudaMemset(x.data(), 0, 68) == cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_CASE("cudaPointerGetAttributes distinguishes device, pinned and pageable memory") {
  device_array<int> x(16);
  pinned_array<int> pinned(4);
  int pageable = 0;
  cudaPointerAttributes is = {};
  REQUIRE(cudaPointerGetAttributes(&is, x.data() + 3) == cudaSuccess);
  CHECK((is.type == cudaMemoryTypeDevice && is.device == 0 && is.devicePointer == x.data() + 3));
  REQUIRE(cudaPointerGetAttributes(&is, pinned.data() + 1) == cudaSuccess);
  CHECK((is.type == cudaMemoryTypeHost && is.hostPointer == pinned.data() + 1));
  REQUIRE(cudaPointerGetAttributes(&is, &pageable) == cudaSuccess);
  CHECK(is.type == cudaMemoryTypeUnregistered);
}

TEST_CASE("a planted fault fails the named call, once or permanently") {
  void* at = nullptr;
  emulator::plant_faults("cudaMalloc@2=2,cudaStreamCreateWithFlags@1+=999");
  REQUIRE(cudaMalloc(&at, 16) == cudaSuccess);
  CHECK(cudaFree(at) == cudaSuccess);
  CHECK(cudaMalloc(&at, 16) == cudaErrorMemoryAllocation);
  CHECK(cudaMalloc(&at, 16) == cudaSuccess);
  CHECK(cudaFree(at) == cudaSuccess);
  cudaStream_t stream = nullptr;
  for (int i = 0; i < 3; ++i)
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaErrorUnknown);
  emulator::plant_faults("");
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  cudaGetLastError();
}
