// Beside the tester (op_tester.hpp): sums have the bits of the reference in the same type.

#include "kernels/reference/reference.hpp"
#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using tests::on_cpu;
using tests::sum_memory;

namespace {

// Nothing; one; primes; a whole block and one more; enough for two threads.
std::int64_t any_size() {
  return GENERATE(0, 1, 7, 61, 4096, 4097, 100003);
}

}  // namespace

TEST_CASE("sums on the cpu have the bits of the reference", "[kernels][cpu]") {
  const auto n = any_size();
  const int threads = GENERATE(1, 2, 3);
  sum_memory<float> a{.n = n}, b = a;
  kernels::reference::run(a.add());
  on_cpu(b.add(), threads);
  CHECK(b.y == a.y);
  kernels::reference::run(a.square_norm());
  on_cpu(b.square_norm(), threads);
  CHECK(b.result == a.result);
}

TEST_CASE("ordered sums on the cpu have the bits of the reference", "[kernels][cpu]") {
  const auto n = any_size();
  const int sources = GENERATE(0, 1, 2, 5);
  sum_memory<float> a{.n = n, .sources = sources}, b = a;
  kernels::reference::run(a.ordered_sum());
  on_cpu(b.ordered_sum(), 2);
  CHECK(b.y == a.y);
}
