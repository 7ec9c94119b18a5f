// Tests of the error of a failed launch: it names the operation, its extents, the grid, CUDA's
// error and what to do.

#include "tests/support/emulated.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

namespace troupe::kernels::cuda {

extern "C" cuda_library* troupe_cuda_library();

}  // namespace troupe::kernels::cuda

using namespace troupe;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;

namespace {

/// The error text of an operation after its first launch fails; empty if it throws nothing.
template <class Op>
std::string said_of(const Op& op, const std::string& error) {
  auto& library = *kernels::cuda::troupe_cuda_library();
  device_array<std::byte> workspace(library.scratch(op));
  const device_queue queue;
  emulator::plant_faults("cudaLaunchKernelEx@1=" + error);
  std::string said;
  try {
    library.run(op, queue.context({workspace.data(), workspace.size()}));
  } catch (const kernels::device_failure& e) {
    said = e.what();
  }
  emulator::plant_faults("");
  CHECK(cudaGetLastError() == cudaSuccess);  // the error is consumed
  return said;
}

std::string said_of_norm(const std::string& error) {
  constexpr std::int64_t R = 5, C = 24;
  const device_array<float> x(std::vector<float>(R * C, 1)), gain(std::vector<float>(C, 1));
  device_array<float> y(R * C);
  return said_of(
      kernels::norm_forward<float>{
          .y = y.data(), .x = x.data(), .gain = gain.data(), .R = R, .C = C, .eps = 1e-5F},
      error);
}

}  // namespace

TEST_CASE("the error of a failed launch names its operation, extents, grid and CUDA's error",
          "[cuda][launch][emulated]") {
  const auto said = said_of_norm("701");
  CHECK_THAT(said, ContainsSubstring("norm_forward<float> of R 5 C 24: "));
  CHECK_THAT(said, ContainsSubstring(" x 1 x 1 blocks of 256 x 1 x 1 threads"));
  CHECK_THAT(said, ContainsSubstring("bytes of shared memory"));
  CHECK_THAT(said, ContainsSubstring("cudaErrorLaunchOutOfResources, "));
}

TEST_CASE("the error of a failed launch says what to do", "[cuda][launch][emulated]") {
  CHECK_THAT(said_of_norm("701"), ContainsSubstring("please report this line"));
  CHECK_THAT(said_of_norm("209"), ContainsSubstring("-DTROUPE_CUDA_ARCHITECTURES="));
  CHECK_THAT(said_of_norm("2"), ContainsSubstring("batch.micro"));
  CHECK_THAT(said_of_norm("304"), ContainsSubstring("CUDA_LAUNCH_BLOCKING=1"));
}

TEST_CASE("the error of a failed attention names extents, not its keys' address",
          "[cuda][launch][emulated]") {
  constexpr std::int64_t T = 3, H = 2, D = 64, n = T * H * D;
  const device_array<float> qkv(std::vector<float>(3 * n, 1));
  const device_array<std::int32_t> starts(std::vector<std::int32_t>{0, T});
  const device_array<std::int32_t> positions(std::vector<std::int32_t>{0, 1, 2});
  device_array<float> o(n), lse(T * H);
  const kernels::attention_forward<float> op{.o = o.data(),
                                             .lse = lse.data(),
                                             .q = qkv.data(),
                                             .k = qkv.data() + n,
                                             .v = qkv.data() + 2 * n,
                                             .shape = {.query_starts = starts.data(),
                                                       .key_starts = starts.data(),
                                                       .query_position = positions.data(),
                                                       .key_position = positions.data(),
                                                       .S = 1,
                                                       .H = H,
                                                       .G = H,
                                                       .D = D,
                                                       .Dv = D,
                                                       .query_row = H * D,
                                                       .query_group = D,
                                                       .key_row = H * D,
                                                       .key_group = D,
                                                       .value_row = H * D,
                                                       .value_group = D,
                                                       .scale = 0.125F,
                                                       .query_rows = T,
                                                       .key_rows = T,
                                                       .longest_query = T,
                                                       .longest_key = T}};
  CHECK_THAT(said_of(op, "701"),
             ContainsSubstring("attention_forward<float> of S 1 H 2 G 2 D 64 "));
}

TEST_CASE("the error of a failed product names its operation, its extents and the product",
          "[cuda][launch][emulated]") {
  kernels::linear_backward_input<float> op{.R = 8, .N = 680, .K = 16};
  const device_array<float> dz(std::vector<float>(std::size_t(op.R * op.N), 1)),
      weight(std::vector<float>(std::size_t(op.N * op.K), 1));
  device_array<float> dx(std::size_t(op.R * op.K));
  op.dx = dx.data();
  op.dz = dz.data();
  op.weight = weight.data();
  auto& library = *kernels::cuda::troupe_cuda_library();
  device_array<std::byte> workspace(library.scratch(op));
  const device_queue queue;
  const auto in = queue.context({workspace.data(), workspace.size()});
  library.run(op, in);
  emulator::plant_faults("cublasLtMatmul@1=13");
  std::string said;
  try {
    library.run(op, in);
  } catch (const kernels::device_failure& e) {
    said = e.what();
  }
  emulator::plant_faults("");
  queue.wait();
  CHECK_THAT(said, ContainsSubstring("linear_backward_input<float> of R 8 N 680 K 16: "));
  CHECK_THAT(said, ContainsSubstring("backward_input fp32 8 x 680 x 16, aligned 16"));
  CHECK_THAT(said, ContainsSubstring("CUBLAS_STATUS_EXECUTION_FAILED"));
}
