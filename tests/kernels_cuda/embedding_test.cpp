// Beside the tester (op_tester_test.cpp): the order in which a device adds rows, to the bit.

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

// One element; primes; whole packs; few tokens many times, more than a warp takes at once; more
// rows than one tile of keys, than two, and than four.
const auto shapes = {shape{1, 1, 1, 1},
                     {7, 5, 11, 3},
                     {61, 24, 13, 61},
                     {131, 264, 3, 17},
                     {2049, 8, 1000, 100},
                     {5003, 3, 2, 1024},
                     {8200, 2, 300, 50}};

/// dtable[row[r]] += dy[r] as a device adds them: the definition, by plain loops.
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

// What is not in parts has the judge's own bits.
TEMPLATE_TEST_CASE("the gradient of an embedding on a device has the bits of rows added in order",
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
  // In parts, as the operation says; the judge has few that come so often.
  add_in_parts(judge, judge.dtable, judge.id);
  if (positions)
    add_in_parts(judge, judge.dposition_table, judge.position);
  CHECK(m.dtable == judge.dtable);
  CHECK(m.dposition_table == judge.dposition_table);
}

// Lengths around whole parts; what comes before the hot row moves its parts.
TEST_CASE("rows of a table that most tokens are of are added in parts, at every length",
          "[kernels][cuda]") {
  const std::int64_t before = GENERATE(0, 1, 255, 300);
  const std::int64_t hot = GENERATE(256, 257, 512, 513, 3000);
  embedding_memory<float> m{
      .R = before + hot + 7, .C = 8, .V = 300, .P = 3, .with_positions = false};
  for (std::int64_t r = 0; r < m.R; ++r)  // each once, but for the hot one and a last of 7
    m.id[std::size_t(r)] = std::int32_t(r < before ? r % 290 : r < before + hot ? 295 : 299);
  std::shuffle(m.id.begin(), m.id.end(), std::mt19937(5));
  auto by_parts = m, judge = m;
  on_device(m, m.backward());
  add_in_parts(by_parts, by_parts.dtable, by_parts.id);
  CHECK(m.dtable == by_parts.dtable);
  kernels::reference::run(judge.backward());
  // Thousands of sums of numbers around 1, in another order: 6e-8 each of sums of about 60.
  CHECK(tests::relative_error(m.dtable, judge.dtable) < 1e-5);
}
