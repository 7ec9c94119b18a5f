#include "kernels/reference/reference.hpp"
#include "tests/support/gradient.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using namespace troupe::tests;
using kernels::reference::run;

TEST_CASE("an embedding looks up tokens and, where there are some, positions",
          "[kernels][reference][embedding]") {
  embedding_memory<double> t{.R = 2, .C = 2, .V = 3, .P = 2};
  t.table = {1, 2, 3, 4, 5, 6};
  t.position_table = {10, 20, 30, 40};
  t.id = {2, 0};
  t.position = {0, 1};
  run(t.forward());
  CHECK(t.y == std::vector<double>{15, 26, 31, 42});
  t.with_positions = false;
  run(t.forward());
  CHECK(t.y == std::vector<double>{5, 6, 1, 2});
}

TEST_CASE("embedding backward agrees with finite differences when tokens repeat",
          "[kernels][reference][embedding][gradient]") {
  const auto with_positions = GENERATE(true, false);
  embedding_memory<double> t{
      .R = 9, .C = 3, .V = 4, .P = 5, .with_positions = with_positions};  // 9 rows, 4 tokens
  const auto dtable = t.dtable, dposition_table = t.dposition_table;
  run(t.backward());
  const auto loss = [&t] {
    run(t.forward());
    return weighted_sum(t.y, t.dy);
  };
  // Linear: what is left is the rounding of the finite differences.
  CHECK(relative_error(t.dtable, plus(dtable, slopes(t.table, loss))) < 1e-8);
  CHECK(relative_error(t.dposition_table, plus(dposition_table, slopes(t.position_table, loss)))
        < 1e-8);
}

TEST_CASE("embedding backward adds rows in their order, rounding after each",
          "[kernels][reference][embedding]") {
  embedding_memory<float> t{.R = 3, .C = 1, .V = 1, .P = 1};
  t.id = t.position = {0, 0, 0};
  t.dtable = t.dposition_table = {0};
  t.dy = {1e8f, 1, -1e8f};  // 1e8f + 1 is 1e8f
  run(t.backward());
  CHECK(t.dtable[0] == 0);
  CHECK(t.dposition_table[0] == 0);

  t.dtable = {0};
  t.dy = {1e8f, -1e8f, 1};
  run(t.backward());
  CHECK(t.dtable[0] == 1);
}
