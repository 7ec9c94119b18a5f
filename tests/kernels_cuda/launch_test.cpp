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

/// The error text of a norm after its first launch fails; empty if it throws nothing.
std::string said_of_norm(const std::string& error) {
  constexpr std::int64_t R = 5, C = 24;
  const device_array<float> x(std::vector<float>(R * C, 1)), gain(std::vector<float>(C, 1));
  device_array<float> y(R * C);
  const device_queue queue;
  emulator::plant_faults("cudaLaunchKernelEx@1=" + error);
  std::string said;
  try {
    kernels::cuda::troupe_cuda_library()->run(
        kernels::norm_forward<float>{
            .y = y.data(), .x = x.data(), .gain = gain.data(), .R = R, .C = C, .eps = 1e-5F},
        queue.context());
  } catch (const kernels::device_failure& e) {
    said = e.what();
  }
  emulator::plant_faults("");
  CHECK(cudaGetLastError() == cudaSuccess);  // the error is consumed
  return said;
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
