#include "kernels/reference/reference.hpp"
#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using tests::on_cpu;
using tests::relative_error;

TEST_CASE("embedding on the cpu agrees with the reference", "[kernels][cpu]") {
  const auto R = GENERATE(1, 13, 1031);
  const auto C = GENERATE(1, 7, 64, 131);
  const bool positions = GENERATE(false, true);
  tests::embedding_memory<float> a{.R = R, .C = C, .V = 11, .P = 5, .with_positions = positions},
      b = a;
  kernels::reference::run(a.forward());
  on_cpu(b.forward(), 2);
  CHECK(b.y == a.y);  // one addition
  kernels::reference::run(a.backward());
  on_cpu(b.backward(), 2);
  // A token stands in some hundred rows, added in floats.
  CHECK(relative_error(b.dtable, a.dtable) < 2e-6);
  CHECK(relative_error(b.dposition_table, a.dposition_table) < 2e-6);
}

TEST_CASE("embedding gradients on the cpu add in the order of the rows", "[kernels][cpu]") {
  tests::embedding_memory<float> a{.R = 3, .C = 1, .V = 1, .P = 1};
  a.dy = {1e8f, 1, -1e8f};
  a.dtable = {0};
  on_cpu(a.backward());
  CHECK(a.dtable.front() == 0);  // the 1 is lost before -1e8 comes; in another order it is not
}

TEST_CASE("embedding gradients on the cpu have the same bits whatever the number of threads",
          "[kernels][cpu]") {
  tests::embedding_memory<float> one{.R = 2053, .C = 133, .V = 17, .P = 64}, three = one;
  on_cpu(one.backward(), 1);
  on_cpu(three.backward(), 3);
  CHECK(one.dtable == three.dtable);
  CHECK(one.dposition_table == three.dposition_table);
}
