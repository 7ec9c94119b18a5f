#include "kernels/reference/reference.hpp"
#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using tests::dropout_memory;
using tests::on_cpu;
using tests::relative_error;

namespace {

struct shape {
  std::int64_t sequences, T, C;
};

// Sequences that end inside a block of four words, inside a vector and inside a chunk.
const auto shapes = {shape{1, 1, 1}, {3, 5, 7}, {2, 64, 16}, {5, 37, 131}, {2, 67, 521}};

std::vector<bool> dropped(const std::vector<float>& x) {
  std::vector<bool> out;
  for (const float value : x)
    out.push_back(value == 0);
  return out;
}

}  // namespace

TEST_CASE("dropout on the cpu drops exactly what the reference drops", "[kernels][cpu]") {
  const auto [sequences, T, C] = GENERATE_REF(values(shapes));
  const float p = GENERATE(0.0f, 0.1f, 0.5f, 0.999f);
  const bool residual = GENERATE(false, true);
  dropout_memory<float> a{
      .sequences = sequences, .T_ = T, .C = C, .p = p, .with_residual = residual};
  a.key = 0x9E3779B97F4A7C15u;            // both halves of the key
  a.sample.back() = 0xFEDCBA9876543210u;  // and of the stream
  auto b = a;
  kernels::reference::run(a.forward());
  on_cpu(b.forward(), 2);
  CHECK(relative_error(b.y, a.y) < 2e-7);  // a product and a sum
  kernels::reference::run(a.backward());
  on_cpu(b.backward(), 2);
  CHECK(relative_error(b.dx, a.dx) < 2e-7);
  CHECK(dropped(b.dx) == dropped(a.dx));
}

TEST_CASE("dropout on the cpu may write over its input or the residual", "[kernels][cpu]") {
  const float p = GENERATE(0.0f, 0.25f);
  dropout_memory<float> a{.sequences = 2, .T_ = 13, .C = 131, .p = p}, b = a, c = a;
  on_cpu(a.forward());
  auto op = b.forward();
  op.y = b.x.data();
  on_cpu(op);
  CHECK(b.x == a.y);
  op = c.forward();
  op.y = c.residual.data();
  on_cpu(op);
  CHECK(c.residual == a.y);
}

TEST_CASE("dropout on the cpu has the same bits whatever the number of threads", "[kernels][cpu]") {
  dropout_memory<float> one{.sequences = 3, .T_ = 67, .C = 521}, three = one;
  on_cpu(one.forward(), 1);
  on_cpu(three.forward(), 3);
  CHECK(one.y == three.y);
}

TEST_CASE("parts of the rows on the cpu are dropped as in the whole, with residual and bias",
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

TEST_CASE("dropout on the cpu adds a bias before it drops", "[kernels][cpu]") {
  const auto [sequences, T, C] = GENERATE_REF(values(shapes));
  const float p = GENERATE(0.0f, 0.5f);
  const bool residual = GENERATE(false, true);
  dropout_memory<float> a{.sequences = sequences,
                          .T_ = T,
                          .C = C,
                          .p = p,
                          .with_residual = residual,
                          .with_bias = true},
      b = a;
  kernels::reference::run(a.forward());
  on_cpu(b.forward(), 2);
  CHECK(relative_error(b.y, a.y) < 3e-7);  // two sums and a product
}
