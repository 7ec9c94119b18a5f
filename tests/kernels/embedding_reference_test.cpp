#include "kernels/reference/reference.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::tests;
using kernels::reference::run;

TEST_CASE("an embedding looks up tokens and optional positions",
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

TEST_CASE("embedding backward adds in row order and rounds after each row",
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

TEST_CASE("table shards on the reference add up to the whole table",
          "[kernels][reference][embedding]") {
  embedding_memory<double> whole{.R = 61, .C = 19, .V = 11, .P = 5, .with_positions = false},
      parts = whole;
  run(whole.forward());
  run(whole.backward());
  std::vector<double> sum(whole.y.size());
  for (const auto& [first, rows] : {std::pair{0, 4}, {4, 1}, {5, 6}}) {
    auto forward = parts.forward();
    forward.table += first * parts.C;
    forward.first = first;
    forward.rows = rows;
    run(forward);
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] += parts.y[i];
    auto backward = parts.backward();
    backward.dtable += first * parts.C;
    backward.first = first;
    backward.rows = rows;
    run(backward);
  }
  CHECK(sum == whole.y);  // each sum has one nonzero term
  CHECK(parts.dtable == whole.dtable);
}

TEST_CASE("on the reference a token of another table shard gets only its position embedding",
          "[kernels][reference][embedding]") {
  embedding_memory<double> t{.R = 13, .C = 7, .V = 11, .P = 5};
  const auto before = t.dtable;
  auto forward = t.forward();
  forward.first = 100;
  forward.rows = 11;
  run(forward);
  auto backward = t.backward();
  backward.first = 100;
  backward.rows = 11;
  run(backward);
  for (std::int64_t r = 0; r < t.R; ++r)
    CHECK(std::equal(t.y.begin() + r * t.C,
                     t.y.begin() + (r + 1) * t.C,
                     t.position_table.begin() + t.position[std::size_t(r)] * t.C));
  CHECK(t.dtable == before);
}
