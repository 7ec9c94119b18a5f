// Tests of kernels on the emulated device: emulated/warp.h, block.hpp.

#include "tests/support/emulated.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cuda_runtime.h>

#include <cmath>
#include <numeric>

using namespace troupe::tests;

namespace {

constexpr unsigned all = 0xffffffffU;

template <class... Params, class... Args>
cudaError_t start(dim3 grid, dim3 block, void (*kernel)(Params...), Args... args) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  return cudaLaunchKernelEx(&config, kernel, args...);
}

template <class... Params, class... Args>
cudaError_t finish(dim3 grid, dim3 block, void (*kernel)(Params...), Args... args) {
  const auto started = start(grid, block, kernel, args...);
  return started == cudaSuccess ? cudaDeviceSynchronize() : started;
}

/// Sums the numbers of each block's threads by a tree in shared memory.
template <bool with_barriers>
__global__ void tree_sum(int* sums) {
  __shared__ int part[256];
  part[threadIdx.x] = int(blockIdx.x + threadIdx.x);
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (with_barriers)
      __syncthreads();
    if (threadIdx.x < half)
      part[threadIdx.x] += part[threadIdx.x + half];
  }
  if (threadIdx.x == 0)
    sums[blockIdx.x] = part[0];
}

/// A barrier is missing before the write, which only a warp that is 16 steps ahead shows.
__global__ void early_write(int* wrong) {
  __shared__ int part[128];
  part[threadIdx.x] = int(threadIdx.x);
  __syncthreads();
  const unsigned other = (threadIdx.x + 32) % 128;
  if (part[other] != int(other))
    wrong[blockIdx.x] = 1;
  for (int i = 0; i < 16; ++i)
    __syncwarp();
  part[threadIdx.x] = -1;
}

std::vector<int> tree_sums(int blocks) {
  std::vector<int> sums;
  for (int b = 0; b < blocks; ++b)
    sums.push_back(256 * b + 255 * 128);
  return sums;
}

__global__ void indices(uint3* thread_of, uint3* block_of, int3 /*unused*/) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned at = block * blockDim.x * blockDim.y * blockDim.z + thread;
  thread_of[at] = threadIdx;
  block_of[at] = blockIdx;
}

__global__ void exchange(int* out, int step, int width) {
  const int lane = int(threadIdx.x % 32);
  int* const row = out + 4 * threadIdx.x;
  row[0] = __shfl_sync(all, lane, step, width);
  row[1] = __shfl_up_sync(all, lane, unsigned(step), width);
  row[2] = __shfl_down_sync(all, lane, unsigned(step), width);
  row[3] = __shfl_xor_sync(all, lane, step, width);
}

__global__ void votes(unsigned* out) {
  const unsigned lane = threadIdx.x % 32;
  out[threadIdx.x * 6 + 0] = __ballot_sync(all, lane % 3 == 0);
  out[threadIdx.x * 6 + 1] = unsigned(__any_sync(all, lane == 7));
  out[threadIdx.x * 6 + 2] = unsigned(__all_sync(all, lane != 7));
  out[threadIdx.x * 6 + 3] = unsigned(__syncthreads_count(lane < 5));
  out[threadIdx.x * 6 + 4] = unsigned(__syncthreads_or(threadIdx.x == 63));
  out[threadIdx.x * 6 + 5] = unsigned(__reduce_max_sync(all, int(lane) - 40) + 40);
}

__global__ void early_exit(int* out) {
  if (threadIdx.x >= 40)
    return;
  out[threadIdx.x] = __syncthreads_count(1);
}

__global__ void parted_barrier() {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
}

__global__ void parted_warp(int* out) {
  if (threadIdx.x % 2 == 0)
    out[threadIdx.x] = __shfl_xor_sync(all, 1, 1);
  else
    __syncthreads();
}

__global__ void full_mask(int* out) {
  out[threadIdx.x] = __shfl_xor_sync(all, 1, 1);
}

__global__ void reads_the_dead(int* out) {
  if (threadIdx.x == 3)
    return;
  out[threadIdx.x] = __shfl_down_sync(all, 1, 1);
}

__global__ void counts(unsigned* at) {
  atomicAdd(at, 1U);
}

__global__ void crooked(const float4* from, float4* to) {
  *to = __ldg(from);
}

__device__ float in_a_helper() {
  __shared__ float part[32];
  const float found = part[threadIdx.x % 32];
  __syncthreads();
  part[threadIdx.x % 32] = 1;
  return found;
}

/// Reads shared memory before any write, and leaves it full of ones.
__global__ void stale(float* out) {
  __shared__ float tile[64];
  out[2 * threadIdx.x] = tile[threadIdx.x];
  out[2 * threadIdx.x + 1] = in_a_helper();
  tile[threadIdx.x] = 1;
}

__global__ void greedy(float* out) {
  __shared__ float tile[12289];
  tile[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x];
}

struct large {
  double x[64];
};

__global__ void copies(large by_value, double* out) {
  out[threadIdx.x] = by_value.x[threadIdx.x];
}

}  // namespace

TEST_CASE("a kernel with all barriers is correct in each order of its threads") {
  const auto seed = GENERATE(1, 2, 3, 4, 5, 6, 7, 8);
  const emulated_seed drawn(seed);
  device_array<int> sums(5);
  REQUIRE(finish(5, 256, tree_sum<true>, sums.data()) == cudaSuccess);
  CHECK(sums.download() == tree_sums(5));
}

TEST_CASE("a kernel without barriers is wrong in some order of its threads") {
  int wrong = 0;
  for (int seed = 1; seed <= 8; ++seed) {
    const emulated_seed drawn(seed);
    device_array<int> sums(5);
    REQUIRE(finish(5, 256, tree_sum<false>, sums.data()) == cudaSuccess);
    wrong += sums.download() != tree_sums(5);
  }
  CHECK(wrong > 0);
}

TEST_CASE("in some blocks a warp is far ahead of the others, in some it is not") {
  device_array<int> wrong(std::vector<int>(32, 0));
  REQUIRE(finish(32, 128, early_write, wrong.data()) == cudaSuccess);
  const auto found = wrong.download();
  const auto blocks = std::accumulate(found.begin(), found.end(), 0);
  CHECK(blocks > 0);
  CHECK(blocks < 32);
}

TEST_CASE("each thread of each block runs once and has its own indices") {
  const dim3 grid(3, 2, 2), block(5, 3, 2);
  device_array<uint3> threads(12 * 30), blocks(12 * 30);
  REQUIRE(finish(grid, block, indices, threads.data(), blocks.data(), int3{}) == cudaSuccess);
  const auto thread_of = threads.download(), block_of = blocks.download();
  unsigned wrong = 0;
  for (unsigned i = 0; i < 12 * 30; ++i) {
    const unsigned b = i / 30, t = i % 30;
    wrong += block_of[i].x != b % 3 || block_of[i].y != b / 3 % 2 || block_of[i].z != b / 6;
    wrong += thread_of[i].x != t % 5 || thread_of[i].y != t / 5 % 3 || thread_of[i].z != t / 15;
  }
  CHECK(wrong == 0);
}

TEST_CASE("lanes exchange values within groups of the given width") {
  const auto [step, width]
      = GENERATE(std::pair(1, 32), std::pair(5, 32), std::pair(3, 8), std::pair(16, 16));
  device_array<int> out(4 * 64);
  REQUIRE(finish(1, 64, exchange, out.data(), step, width) == cudaSuccess);
  const auto got = out.download();
  int wrong = 0;
  for (int t = 0; t < 64; ++t) {
    const int lane = t % 32, first = lane / width * width, last = first + width - 1;
    wrong += got[std::size_t(4 * t)] != first + step % width;
    wrong += got[std::size_t(4 * t + 1)] != (lane - step < first ? lane : lane - step);
    wrong += got[std::size_t(4 * t + 2)] != (lane + step > last ? lane : lane + step);
    wrong += got[std::size_t(4 * t + 3)] != ((lane ^ step) > last ? lane : lane ^ step);
  }
  CHECK(wrong == 0);
}

TEST_CASE("votes and reductions count the lanes of the mask, barriers the threads of the block") {
  device_array<unsigned> out(64 * 6);
  REQUIRE(finish(1, 64, votes, out.data()) == cudaSuccess);
  const auto got = out.download();
  int wrong = 0;
  for (std::size_t t = 0; t < 64; ++t)
    wrong += std::vector(got.begin() + long(6 * t), got.begin() + long(6 * t + 6))
             != std::vector<unsigned>{0x49249249U, 1, 0, 10, 1, 31};
  CHECK(wrong == 0);
}

TEST_CASE("barriers do not wait for ended threads") {
  device_array<int> out(40);
  REQUIRE(finish(1, 64, early_exit, out.data()) == cudaSuccess);
  CHECK(out.download() == std::vector<int>(40, 40));
}

TEST_CASE("threads at different barriers fail the launch and break the device") {
  REQUIRE(finish(1, 64, parted_barrier) == cudaErrorLaunchFailure);
  void* at = nullptr;
  CHECK(cudaMalloc(&at, 16) == cudaErrorLaunchFailure);
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
  REQUIRE(cudaDeviceReset() == cudaSuccess);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("lanes that diverge in a warp operation fail the launch") {
  device_array<int> out(32);
  CHECK(finish(1, 32, parted_warp, out.data()) == cudaErrorLaunchFailure);
  cudaDeviceReset();
}

TEST_CASE("a mask with lanes outside the block fails the launch") {
  device_array<int> out(48);
  CHECK(finish(1, 48, full_mask, out.data()) == cudaErrorLaunchFailure);
  cudaDeviceReset();
}

TEST_CASE("reading an ended lane fails the launch") {
  device_array<int> out(32);
  CHECK(finish(1, 32, reads_the_dead, out.data()) == cudaErrorLaunchFailure);
  cudaDeviceReset();
}

TEST_CASE("a misaligned address fails the launch") {
  device_array<float> from(8);
  device_array<float4> to(1);
  const auto* const crooked_from = reinterpret_cast<const float4*>(from.data() + 1);
  CHECK(finish(1, 1, crooked, crooked_from, to.data()) == cudaErrorMisalignedAddress);
  cudaDeviceReset();
}

TEST_CASE("an invalid launch is refused at once and the device stays usable") {
  device_array<unsigned> count(1);
  const auto refused = [&](dim3 grid, dim3 block) {
    return start(grid, block, counts, count.data()) == cudaErrorInvalidConfiguration;
  };
  CHECK(refused(1, 1025));
  CHECK(refused(1, dim3(32, 33)));
  CHECK(refused(1, dim3(1, 1, 65)));
  CHECK(refused(0, 32));
  CHECK(refused(dim3(1, 65536), 32));
  CHECK(refused(dim3(1, 1, 65536), 32));
  CHECK(refused(dim3(0x80000000U), 1));
  unsigned on_host = 0;
  CHECK(start(1, 1, counts, &on_host) == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("shared memory is poisoned when a block begins") {
  device_array<float> out(128);
  int numbers = 0;
  for (int again = 0; again < 3; ++again) {
    REQUIRE(finish(4, 64, stale, out.data()) == cudaSuccess);
    for (const float x : out.download())
      numbers += !std::isnan(x);
  }
  CHECK(numbers == 0);
}

TEST_CASE("more than 48 KiB of shared memory is refused") {
  device_array<float> out(64);
  CHECK(start(1, 64, greedy, out.data()) == cudaErrorInvalidConfiguration);
  cudaFuncAttributes is = {};
  REQUIRE(cudaFuncGetAttributes(&is, greedy) == cudaSuccess);
  CHECK(is.sharedSizeBytes == 49156);
  cudaGetLastError();
}

TEST_CASE("blocks on several host threads add up atomically") {
  device_array<unsigned> count(std::vector<unsigned>{0});
  REQUIRE(finish(dim3(7, 5, 3), 33, counts, count.data()) == cudaSuccess);
  CHECK(count.download().front() == 7 * 5 * 3 * 33);
}

TEST_CASE("a launch copies the arguments of the kernel") {
  large value = {};
  std::iota(std::begin(value.x), std::end(value.x), 1.0);
  device_array<double> out(64);
  REQUIRE(start(1, 64, copies, value, out.data()) == cudaSuccess);
  value = {};
  std::vector<double> expected(64);
  std::iota(expected.begin(), expected.end(), 1.0);
  CHECK(out.download() == expected);
}
