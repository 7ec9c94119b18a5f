// Cases beyond the operation tester (op_tester.hpp): the order of sums, and table shards, bit by
// bit.

#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using tests::on_cpu;

TEST_CASE("embedding gradients on the cpu are added in row order", "[kernels][cpu]") {
  tests::embedding_memory<float> a{.R = 3, .C = 1, .V = 1, .P = 1};
  a.dy = {1e8f, 1, -1e8f};
  a.dtable = {0};
  on_cpu(a.backward());
  CHECK(a.dtable.front() == 0);  // the 1 is lost before -1e8 is added; another order would keep it
}

TEST_CASE("table shards on the cpu add up to the whole table", "[kernels][cpu]") {
  tests::embedding_memory<float> whole{.R = 61, .C = 19, .V = 11, .P = 5, .with_positions = false},
      parts = whole;
  on_cpu(whole.forward(), 2);
  on_cpu(whole.backward(), 2);
  std::vector<float> sum(whole.y.size());
  for (const auto& [first, rows] : {std::pair{0, 4}, {4, 1}, {5, 6}}) {
    auto forward = parts.forward();
    forward.table += first * parts.C;
    forward.first = first;
    forward.rows = rows;
    on_cpu(forward, 2);
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] += parts.y[i];
    auto backward = parts.backward();
    backward.dtable += first * parts.C;
    backward.first = first;
    backward.rows = rows;
    on_cpu(backward, 2);
  }
  CHECK(sum == whole.y);  // each sum has one nonzero term
  CHECK(parts.dtable == whole.dtable);
}
