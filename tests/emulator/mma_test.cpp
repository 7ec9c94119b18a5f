// Tests of the emulated tensor cores: the register layout of the PTX ISA, and asynchronous copies.

#include "kernels/cuda/mma.cuh"

#include "tests/support/emulated.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cuda_runtime.h>

using namespace troupe::tests;
using troupe::kernels::bf16;
using troupe::kernels::f16;
using troupe::kernels::cuda::async_copies;
using troupe::kernels::cuda::load_matrices;
using troupe::kernels::cuda::load_transposed;
using troupe::kernels::cuda::multiply_add;

namespace {

template <class... Params, class... Args>
void finish_warp(void (*kernel)(Params...), Args... args) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(1);
  config.blockDim = dim3(32);
  must(cudaLaunchKernelEx(&config, kernel, args...), "a launch");
  must(cudaDeviceSynchronize(), "a kernel");
}

/// Multiplies a (16, 16) by b (16, 8) and by the transpose of bt (8, 16).
template <class T>
__global__ void both_products(const T* a, const T* b, const T* bt, float* c, float* ct) {
  __shared__ uint4 left[32], right[16], turned[16];
  async_copies copies;
  const int lane = int(threadIdx.x), g = lane / 4, t = lane % 4;
  copies.copy_16_bytes(left + lane, a + lane * 8, true);
  copies.copy_16_bytes(right + lane % 16, b + lane % 16 * 8, true);
  copies.copy_16_bytes(turned + lane % 16, bt + lane % 16 * 8, true);
  copies.wait();
  __syncthreads();
  unsigned x[4], y[4], yt[4];
  load_matrices(x, left + lane % 16 * 2 + lane / 16);
  load_transposed(y, right + lane % 16);
  load_matrices(yt, turned + lane % 8 * 2 + lane / 8 % 2);
  float of_b[4] = {1, 1, 1, 1}, of_bt[4] = {};
  multiply_add<T>(of_b, x, y[0], y[1]);
  multiply_add<T>(of_bt, x, yt[0], yt[1]);
  for (int i = 0; i < 4; ++i) {
    const int at = (g + i / 2 * 8) * 8 + 2 * t + i % 2;
    c[at] = of_b[i];
    ct[at] = of_bt[i];
  }
}

__global__ void unwaited(const unsigned* from, unsigned* to, bool there) {
  __shared__ unsigned x[32];
  async_copies copies;
  const auto i = threadIdx.x;
  copies.copy_4_bytes(x + i, from + i, there);
  to[2 * i] = x[i];
  copies.wait();
  to[2 * i + 1] = x[i];
}

}  // namespace

TEMPLATE_TEST_CASE("the register layout of a warp gives correct products", "", bf16, f16) {
  std::vector<TestType> a(256), b(128), bt(128);
  for (int i = 0; i < 256; ++i)
    a[std::size_t(i)] = TestType(float(i % 37 - 18));
  for (int k = 0; k < 16; ++k)
    for (int n = 0; n < 8; ++n)
      b[std::size_t(k * 8 + n)] = bt[std::size_t(n * 16 + k)]
          = TestType(float((k * 5 + n * 7) % 23));
  const device_array<TestType> on_a(a), on_b(b), on_bt(bt);
  device_array<float> c(128), ct(128);
  finish_warp(both_products<TestType>, on_a.data(), on_b.data(), on_bt.data(), c.data(), ct.data());
  const auto got = c.download(), turned = ct.download();
  for (int row = 0; row < 16; ++row)
    for (int n = 0; n < 8; ++n) {
      float sum = 0;
      for (int k = 0; k < 16; ++k)
        sum += float(a[std::size_t(row * 16 + k)]) * float(b[std::size_t(k * 8 + n)]);
      REQUIRE(got[std::size_t(row * 8 + n)] == sum + 1);
      REQUIRE(turned[std::size_t(row * 8 + n)] == sum);
    }
}

TEST_CASE("an asynchronous copy is complete only after a wait") {
  const device_array<unsigned> from(std::vector<unsigned>(32, 7));
  device_array<unsigned> to(64);
  finish_warp(unwaited, from.data(), to.data(), true);
  CHECK(to.download()[0] == ~0U);
  CHECK(to.download()[63] == 7);
  finish_warp(unwaited, from.data(), to.data(), false);
  CHECK(to.download()[63] == 0);
}
