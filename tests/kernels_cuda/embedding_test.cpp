#include "tests/support/device_ops.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using tests::embedding_memory;
using tests::error_of;
using tests::in_double;
using tests::on_device;
using tests::redrawn;

namespace {

struct shape {
  std::int64_t R, C, V, P;
};

// One element; primes; whole packs; few tokens many times, more than a warp takes at once; more
// rows than one tile of keys, and than two.
const auto shapes = {shape{1, 1, 1, 1},
                     {7, 5, 11, 3},
                     {61, 24, 13, 61},
                     {131, 264, 3, 17},
                     {2049, 8, 1000, 100},
                     {5003, 3, 2, 1024}};

}  // namespace

TEMPLATE_TEST_CASE("embedding on a device agrees with the judge",
                   "[kernels][cuda]",
                   float,
                   kernels::bf16,
                   kernels::f16) {
  const auto [R, C, V, P] = GENERATE_REF(values(shapes));
  const bool positions = GENERATE(false, true);
  const std::size_t shift = GENERATE(0, 1);
  auto m = redrawn(
      embedding_memory<TestType>{.R = R, .C = C, .V = V, .P = P, .with_positions = positions},
      int(R));
  auto exact = in_double(m);
  on_device(m, m.forward(), shift);
  kernels::reference::run(exact.forward());
  CHECK(error_of(m.y, exact.y) < 1e-7);  // one sum, rounded to 6e-8
}

TEMPLATE_TEST_CASE("the gradient of an embedding on a device has the bits of the judge",
                   "[kernels][cuda]",
                   float,
                   kernels::bf16,
                   kernels::f16) {
  const auto [R, C, V, P] = GENERATE_REF(values(shapes));
  const bool positions = GENERATE(false, true);
  const std::size_t shift = GENERATE(0, 1);
  auto m = redrawn(
      embedding_memory<TestType>{.R = R, .C = C, .V = V, .P = P, .with_positions = positions},
      int(R));
  auto judge = m;
  const tests::emulated_seed order(int(R) + 1);
  on_device(m, m.backward(), shift);
  kernels::reference::run(judge.backward());
  CHECK(m.dtable == judge.dtable);
  CHECK(m.dposition_table == judge.dposition_table);
}

TEMPLATE_TEST_CASE("an embedding on a device whose table is a part leaves other tokens out",
                   "[kernels][cuda]",
                   float,
                   kernels::bf16) {
  const std::int32_t first = GENERATE(0, 5, 37), rows = GENERATE(0, 11);
  const bool positions = GENERATE(false, true);
  embedding_memory<TestType> m{.R = 61, .C = 24, .V = 50, .P = 7, .with_positions = positions};
  auto judge = m;
  const auto part = [&](auto op) {
    op.first = first;
    op.rows = rows;
    return op;
  };
  on_device(m, part(m.forward()));
  on_device(m, part(m.backward()));
  kernels::reference::run(part(judge.forward()));
  kernels::reference::run(part(judge.backward()));
  CHECK(m.y == judge.y);
  CHECK(m.dtable == judge.dtable);
  CHECK(m.dposition_table == judge.dposition_table);
}

TEST_CASE("an embedding of no rows on a device changes nothing", "[kernels][cuda]") {
  embedding_memory<float> m{.R = 0, .C = 8, .V = 3, .P = 3}, before = m;
  on_device(m, m.forward());
  on_device(m, m.backward());
  CHECK(m.dtable == before.dtable);
  CHECK(m.dposition_table == before.dposition_table);
}
