// Cases beyond the operation tester (op_tester_test.cpp): the exact order in which a device adds
// rows.

#include "tests/support/device_ops.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <map>
#include <random>

using namespace troupe;
using tests::embedding_memory;
using tests::on_device;
using tests::redrawn;

namespace {

struct shape {
  std::int64_t R, C, V, P;
};

// One element; primes; whole packs; few tokens, each more often than a warp takes at once; more
// rows than one, two and four tiles of keys.
const auto shapes = {shape{1, 1, 1, 1},
                     {7, 5, 11, 3},
                     {61, 24, 13, 61},
                     {131, 264, 3, 17},
                     {2049, 8, 1000, 100},
                     {5003, 3, 2, 1024},
                     {8200, 2, 300, 50}};

/// dtable[row[r]] += dy[r] in the order of a device, as plain loops.
template <class T>
void add_in_parts(const embedding_memory<T>& m,
                  std::vector<kernels::accumulator<T>>& table,
                  const std::vector<std::int32_t>& row) {
  constexpr auto part = std::size_t(kernels::embedding_backward<T>::part);
  std::map<std::int32_t, std::vector<std::int64_t>> uses;
  for (std::int64_t r = 0; r < m.R; ++r)
    uses[row[std::size_t(r)]].push_back(r);
  for (const auto& [to, rows] : uses)
    for (std::int64_t c = 0; c < m.C; ++c) {
      auto& sum = table[std::size_t(to * m.C + c)];
      for (std::size_t begin = 0; begin < rows.size(); begin += part) {
        float of_part = begin == 0 ? sum : 0;
        for (std::size_t i = begin; i < std::min(begin + part, rows.size()); ++i)
          of_part += float(m.dy[std::size_t(rows[i] * m.C + c)]);
        sum = begin == 0 ? of_part : sum + of_part;
      }
    }
}

}  // namespace

// Rows that are not added in parts have the bits of the reference.
TEMPLATE_TEST_CASE("the embedding gradient on a device has the bits of rows added in order",
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
  // The parts are those of the operation's definition.
  add_in_parts(judge, judge.dtable, judge.id);
  if (positions)
    add_in_parts(judge, judge.dposition_table, judge.position);
  CHECK(m.dtable == judge.dtable);
  CHECK(m.dposition_table == judge.dposition_table);
}

// The counts are around multiples of a part; rows before the hot one shift its parts.
TEST_CASE("a table row with most tokens is added in parts, for all counts", "[kernels][cuda]") {
  const std::int64_t before = GENERATE(0, 1, 255, 300);
  const std::int64_t hot = GENERATE(256, 257, 512, 513, 3000);
  embedding_memory<float> m{
      .R = before + hot + 7, .C = 8, .V = 300, .P = 3, .with_positions = false};
  for (std::int64_t r = 0; r < m.R; ++r)  // each id once, except the hot one and the last (7 times)
    m.id[std::size_t(r)] = std::int32_t(r < before ? r % 290 : r < before + hot ? 295 : 299);
  std::shuffle(m.id.begin(), m.id.end(), std::mt19937(5));
  auto by_parts = m, judge = m;
  on_device(m, m.backward());
  add_in_parts(by_parts, by_parts.dtable, by_parts.id);
  CHECK(m.dtable == by_parts.dtable);
  kernels::reference::run(judge.backward());
  // Thousands of additions of numbers near 1 in another order: 6e-8 each, of sums near 60.
  CHECK(tests::relative_error(m.dtable, judge.dtable) < 1e-5);
}
