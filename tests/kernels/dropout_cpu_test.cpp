// Cases beyond the operation tester (op_tester.hpp): parts of a micro-batch have the masks of the
// whole, bit by bit.

#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using tests::dropout_memory;
using tests::on_cpu;

TEST_CASE("dropout of row ranges on the cpu equals dropout of the whole, with residual and bias",
          "[kernels][cpu]") {
  const float p = GENERATE(0.0f, 0.3f);
  const bool residual = GENERATE(false, true);
  dropout_memory<float> whole{
      .sequences = 3, .T_ = 7, .C = 133, .p = p, .with_residual = residual, .with_bias = true};
  auto parts = whole;
  on_cpu(whole.forward(), 2);
  on_cpu(whole.backward(), 2);
  for (const auto& [begin, end] : {std::pair{0, 2}, {2, 10}, {10, 11}, {11, 21}}) {
    auto forward = parts.forward();
    const std::int64_t at = begin * whole.C;
    forward.y += at;
    forward.x += at;
    if (residual)
      forward.residual += at;
    forward.R = end - begin;
    forward.first_row = begin;
    on_cpu(forward, 2);
    auto backward = parts.backward();
    backward.dx += at;
    backward.dy += at;
    backward.R = end - begin;
    backward.first_row = begin;
    on_cpu(backward, 2);
  }
  CHECK(parts.y == whole.y);
  CHECK(parts.dx == whole.dx);
}
