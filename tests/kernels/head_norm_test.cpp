// Cases beyond the operation tester (op_tester.hpp): heads compared with rows, and the counts.

#include "kernels/reference/reference.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using namespace troupe::tests;
using kernels::normalization;

TEST_CASE("a head norm of contiguous heads equals a norm of rows",
          "[kernels][reference][head_norm]") {
  const auto kind = GENERATE(normalization::layer, normalization::rms);
  norm_memory<double> rows{.R = 24, .C = 5, .kind = kind};
  head_norm_memory<double> heads{.R = 4, .G = 2, .heads = 3, .D = 5, .kind = kind};
  heads.x = rows.x;
  heads.dy = rows.dy;
  heads.gain = rows.gain;
  heads.bias = rows.bias;
  heads.dgain = rows.dgain;
  heads.dbias = rows.dbias;
  const auto dense = [](auto op) {
    op.shape.row = 2 * 3 * 5;
    op.shape.group = 3 * 5;
    kernels::reference::run(op);
  };
  dense(heads.forward());
  dense(heads.backward_input());
  dense(heads.backward_weight());
  kernels::reference::run(rows.forward());
  kernels::reference::run(rows.backward_input());
  kernels::reference::run(rows.backward_weight());
  CHECK(std::equal(rows.y.begin(), rows.y.end(), heads.y.begin()));
  CHECK(relative_error(heads.dx, rows.dx) < 1e-14);  // the divisions are in another order
  CHECK(heads.mean == rows.mean);
  CHECK(heads.rstd == rows.rstd);
  CHECK(heads.dgain == rows.dgain);
  CHECK(heads.dbias == rows.dbias);
}

TEST_CASE("the counts of a head norm are right", "[kernels][reference][counts]") {
  head_norm_memory<float> t{.R = 2, .G = 3, .heads = 2, .D = 4};
  CHECK(flops(t.forward()) == 48 * 4);
  CHECK(flops(t.backward_input()) == 48 * 7);
  CHECK(flops(t.backward_weight()) == 48 * 3);
  CHECK(bytes_moved(t.forward()) == 4 * 2 * 48);
  CHECK(bytes_moved(t.backward_input()) == 4 * 3 * 48);
  CHECK(bytes_moved(t.backward_weight()) == 4 * 2 * 48);
}
