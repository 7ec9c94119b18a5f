// GROUP-2: the bits of a group do not depend on the other groups of its call. So experts on several
// ranks, which see the rows of all sources, have the bits of a rank with all experts.

#include "kernels/cpu/product.hpp"
#include "kernels/op/grouped_linear.hpp"
#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <optional>

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr std::int32_t experts = 5;
constexpr int sources = 6;
/// Rows of each expert from each source. Alone, 8 rows read a bf16 weight in place, together with
/// 70 they do not; of floats, 500 rows are in tiles and 70 are not. Then none, and few rows. More
/// than four short groups are added to a gradient in several turns; up to 16 rows share a tile.
constexpr std::int64_t rows_of[experts][sources] = {{70, 8, 3, 33, 1, 9},
                                                    {70, 500, 0, 2, 2, 2},
                                                    {0, 33, 0, 0, 5, 64},
                                                    {1, 8, 8, 8, 8, 8},
                                                    {16, 9, 0, 12, 3, 10}};

/// Rows of experts, with a group for each (expert, source) in that order.
template <class T>
struct grouped_memory {
  std::int64_t N, K;
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> expert;
  std::vector<T> x, dy, y, dx;
  std::vector<T> weight = normal<T>(experts * N * K, 1), bias = normal<T>(experts * N, 2);
  std::vector<float> dweight = blank<float>(experts * N * K), dbias = blank<float>(experts * N);
  bool accumulates = false;

  void add(std::int32_t e, const std::vector<T>& rows, const std::vector<T>& gradients) {
    expert.push_back(e);
    x.insert(x.end(), rows.begin(), rows.end());
    dy.insert(dy.end(), gradients.begin(), gradients.end());
    offsets.push_back(std::int64_t(x.size()) / K);
    y = blank<T>(offsets.back() * N);
    dx = blank<T>(offsets.back() * K);
  }

  void compute(int threads) {
    const kernels::row_groups groups{offsets.data(), expert.data(), std::int64_t(expert.size())};
    const std::int64_t R = offsets.back();
    on_cpu(kernels::grouped_linear_forward<T>{.y = y.data(),
                                              .x = x.data(),
                                              .weight = weight.data(),
                                              .bias = bias.data(),
                                              .groups = groups,
                                              .R = R,
                                              .E = experts,
                                              .N = N,
                                              .K = K},
           threads);
    on_cpu(kernels::grouped_linear_backward_input<T>{.dx = dx.data(),
                                                     .dy = dy.data(),
                                                     .weight = weight.data(),
                                                     .groups = groups,
                                                     .R = R,
                                                     .E = experts,
                                                     .N = N,
                                                     .K = K},
           threads);
    on_cpu(kernels::grouped_linear_backward_weight<T>{.dweight = dweight.data(),
                                                      .dbias = dbias.data(),
                                                      .dy = dy.data(),
                                                      .x = x.data(),
                                                      .groups = groups,
                                                      .R = R,
                                                      .E = experts,
                                                      .N = N,
                                                      .K = K,
                                                      .accumulates = accumulates,
                                                      .bias_accumulates = accumulates},
           threads);
  }

  std::vector<T> rows(const std::vector<T>& of, std::size_t group, std::int64_t width) const {
    return {of.begin() + offsets[group] * width, of.begin() + offsets[group + 1] * width};
  }
};

}  // namespace

TEMPLATE_TEST_CASE("GROUP-2: the bits of grouped products are those of a call per source",
                   "[kernels][cpu]",
                   float,
                   kernels::bf16,
                   kernels::f16) {
  using T = TestType;
  const bool all_in_tiles = GENERATE(false, true);
  std::optional<kernels::cpu::small_products_in_tiles> tiles;
  if (all_in_tiles)
    tiles.emplace();
  // Tiles read a weight of whole squares in place.
  const auto [N, K] = GENERATE(std::pair<std::int64_t, std::int64_t>{520, 130},
                               std::pair<std::int64_t, std::int64_t>{544, 160});
  grouped_memory<T> all{N, K};
  std::vector<grouped_memory<T>> of_source(sources, all);
  std::uint32_t seed = 10;
  for (std::int32_t e = 0; e < experts; ++e)
    for (int s = 0; s < sources; ++s) {
      const auto x = normal<T>(std::size_t(rows_of[e][s] * K), ++seed);
      const auto dy = normal<T>(std::size_t(rows_of[e][s] * N), ++seed);
      all.add(e, x, dy);
      of_source[std::size_t(s)].add(e, x, dy);
    }
  all.compute(3);
  for (int s = 0; s < sources; ++s) {
    auto& mine = of_source[std::size_t(s)];
    if (s > 0) {  // the gradients of one accumulator
      mine.dweight = of_source[std::size_t(s) - 1].dweight;
      mine.dbias = of_source[std::size_t(s) - 1].dbias;
      mine.accumulates = true;
    }
    mine.compute(1);
    for (std::int32_t e = 0; e < experts; ++e) {
      const auto in_all = std::size_t(e * sources + s), here = std::size_t(e);
      CHECK(mine.rows(mine.y, here, N) == all.rows(all.y, in_all, N));
      CHECK(mine.rows(mine.dx, here, K) == all.rows(all.dx, in_all, K));
    }
  }
  CHECK(of_source[sources - 1].dweight == all.dweight);
  CHECK(of_source[sources - 1].dbias == all.dbias);
}
