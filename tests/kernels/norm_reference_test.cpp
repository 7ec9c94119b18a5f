#include "kernels/reference/reference.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using namespace troupe::tests;
using kernels::normalization;
using kernels::reference::run;

TEST_CASE("layer norm gives rows of mean zero and variance one before gain and bias",
          "[kernels][reference][norm]") {
  const auto C = GENERATE(3, 32, 257);
  norm_memory<double> t{.R = 4, .C = C};
  std::fill(t.gain.begin(), t.gain.end(), 1.0);
  std::fill(t.bias.begin(), t.bias.end(), 0.0);
  for (auto& x : t.x)
    x = 7 + 3 * x;
  run(t.forward());
  for (std::int64_t r = 0; r < t.R; ++r) {
    double sum = 0, squares = 0;
    for (std::int64_t c = 0; c < C; ++c) {
      sum += t.y[r * C + c];
      squares += t.y[r * C + c] * t.y[r * C + c];
    }
    CHECK(std::abs(sum / double(C)) < 1e-12);
    CHECK(std::abs(squares / double(C) - 1) < 1e-4);  // not exact, because eps is inside the root
  }
}

TEST_CASE("rms norm gives rows of root mean square one before gain", "[kernels][reference][norm]") {
  const auto C = GENERATE(1, 3, 257);
  norm_memory<double> t{.R = 4, .C = C, .kind = normalization::rms, .eps = 0};
  std::fill(t.gain.begin(), t.gain.end(), 1.0);
  run(t.forward());
  for (std::int64_t r = 0; r < t.R; ++r) {
    double squares = 0;
    for (std::int64_t c = 0; c < C; ++c)
      squares += t.y[r * C + c] * t.y[r * C + c];
    CHECK(std::abs(squares / double(C) - 1) < 1e-12);
    CHECK(t.mean[r] == 0);
  }
}

TEST_CASE("a norm scales by gain and shifts by bias", "[kernels][reference][norm]") {
  norm_memory<double> t{.R = 1, .C = 2, .eps = 0};
  t.x = {1, 5};
  t.gain = {10, 100};
  t.bias = {0.5, 0.25};
  run(t.forward());
  CHECK(t.y == std::vector<double>{-9.5, 100.25});
  CHECK(t.mean[0] == 3);
  CHECK(t.rstd[0] == 0.5);
}

TEST_CASE("eps keeps a row without variance finite", "[kernels][reference][norm]") {
  const auto kind = GENERATE(normalization::layer, normalization::rms);
  norm_memory<double> t{.R = 1, .C = 3, .kind = kind, .eps = 0.0625f};
  std::fill(t.x.begin(), t.x.end(), kind == normalization::layer ? 5.0 : 0.0);
  run(t.forward());
  CHECK(t.rstd[0] == 4);
  CHECK(t.y == (t.layer() ? t.bias : std::vector<double>(3, 0)));
}

TEST_CASE("a norm accepts null statistics", "[kernels][reference][norm]") {
  norm_memory<double> t{.R = 3, .C = 5};
  run(t.forward());
  const auto y = t.y;
  auto op = t.forward();
  op.mean = nullptr;
  op.rstd = nullptr;
  run(op);
  CHECK(t.y == y);
}

TEST_CASE("the gradient of the skip connection is added to dx",
          "[kernels][reference][norm][gradient]") {
  const auto kind = GENERATE(normalization::layer, normalization::rms);
  norm_memory<double> t{.R = 3, .C = 5, .kind = kind};
  run(t.forward());
  run(t.backward_input());
  auto expected = t.dx;
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i] += t.residual[i];
  t.with_residual = true;
  run(t.backward_input());
  CHECK(t.dx == expected);
}

TEST_CASE("the gain offset acts as a part of the gain in both passes",
          "[kernels][reference][norm]") {
  const auto kind = GENERATE(normalization::layer, normalization::rms);
  norm_memory<double> offset{.R = 3, .C = 7, .kind = kind, .gain_offset = 1}, plain = offset;
  plain.gain_offset = 0;
  for (auto& gain : plain.gain)
    gain += 1;
  for (auto* t : {&offset, &plain}) {
    run(t->forward());
    run(t->backward_input());
    run(t->backward_weight());
  }
  CHECK(offset.y == plain.y);
  CHECK(offset.dx == plain.dx);
  CHECK(offset.dgain == plain.dgain);  // the gradient of gain + 1 equals that of gain
}
