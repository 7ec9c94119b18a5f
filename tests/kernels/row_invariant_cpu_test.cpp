// Serving: keys in pages, and rows whose bits do not depend on the batch.

#include "kernels/op/attention.hpp"
#include "kernels/op/grouped_linear.hpp"
#include "kernels/op/linear.hpp"
#include "tests/kernels/vector_targets.hpp"
#include "tests/support/on_cpu.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

using namespace troupe;

namespace {

/// 0: the machine's best, with tiles if it has them.
std::vector<std::int64_t> every_target() {
  auto out = tests::vector_targets();
  out.push_back(0);
  return out;
}

template <class T>
std::vector<T> drawn(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> out;
  for (std::size_t i = 0; i < n; ++i)
    out.push_back(T(float(random() % 2001) / 1000 - 1));
  return out;
}

template <class T>
bool equal_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// A sequence of `rows` keys and queries. H = 4, G = 2.
template <class T>
struct one_text {
  std::int64_t rows, D;
  std::int32_t window;
  std::vector<T> q = drawn<T>(std::size_t(rows * 4 * D), 1), k = drawn<T>(padded() * 2 * D, 2),
                 v = drawn<T>(padded() * 2 * D, 3);

  std::size_t padded() const { return std::size_t((rows + 63) / 64 * 64); }

  /// The output of queries [begin, end), with the pages of `order`, or without any.
  std::vector<T> output(std::int64_t begin,
                        std::int64_t end,
                        const std::vector<std::int32_t>& order,
                        kernels::backend where = kernels::backend::cpu) const {
    const std::int64_t n = end - begin, width = 2 * D;
    std::vector<std::int32_t> query_position, key_position;
    for (auto i = begin; i < end; ++i)
      query_position.push_back(std::int32_t(i));
    for (std::size_t j = 0; j < padded(); ++j)
      key_position.push_back(std::int32_t(j));
    const std::vector<std::int32_t> queries = {0, std::int32_t(n)},
                                    keys = {0, std::int32_t(padded())};
    auto keys_in_pages = k, values_in_pages = v;
    for (std::size_t page = 0; page < order.size(); ++page) {
      const auto to = order[page] * 64 * width, from = std::int64_t(page) * 64 * width;
      std::copy_n(k.begin() + from, 64 * width, keys_in_pages.begin() + to);
      std::copy_n(v.begin() + from, 64 * width, values_in_pages.begin() + to);
    }
    std::vector<T> o(std::size_t(n * 4 * D));
    std::vector<float> lse(std::size_t(n * 4));
    const kernels::attention_forward<T> op{
        .o = o.data(),
        .lse = lse.data(),
        .q = q.data() + begin * 4 * D,
        .k = keys_in_pages.data(),
        .v = values_in_pages.data(),
        .shape = {.query_starts = queries.data(),
                  .key_starts = keys.data(),
                  .query_position = query_position.data(),
                  .key_position = key_position.data(),
                  .S = 1,
                  .H = 4,
                  .G = 2,
                  .D = D,
                  .Dv = D,
                  .query_row = 4 * D,
                  .query_group = 2 * D,
                  .key_row = width,
                  .key_group = D,
                  .value_row = width,
                  .value_group = D,
                  .scale = float(1 / std::sqrt(double(D))),
                  .window = window,
                  .row_invariant = true,
                  .pages = order.empty() ? nullptr : order.data()}};
    if (where == kernels::backend::cpu)
      tests::on_cpu(op);
    else
      kernels::run(where, op, {});
    return o;
  }
};

}  // namespace

TEMPLATE_TEST_CASE("keys in pages give the bits of keys in order, in chunks of any size",
                   "[kernels][attention]",
                   float,
                   kernels::bf16,
                   kernels::f16) {
  const tests::vector_target only(GENERATE(from_range(every_target())));
  for (const std::int64_t D : {8, 40, 64})
    for (const std::int32_t window : {-1, 50}) {
      const one_text<TestType> text{200, D, window};
      const std::vector<std::int32_t> order = {2, 0, 3, 1};
      const auto whole = text.output(0, 200, {});
      CHECK(equal_bits(text.output(0, 200, order), whole));
      CHECK(equal_bits(text.output(0, 200, order, kernels::backend::reference),
                       text.output(0, 200, {}, kernels::backend::reference)));
      for (const std::int64_t chunk : {1, 3, 5, 37, 64, 130}) {
        std::vector<TestType> parts;
        for (std::int64_t begin = 0; begin < 200; begin += chunk) {
          const auto part = text.output(begin, std::min<std::int64_t>(200, begin + chunk), order);
          parts.insert(parts.end(), part.begin(), part.end());
        }
        CHECK(equal_bits(parts, whole));
      }
    }
}

TEST_CASE("attention refuses a backward pass over keys in pages", "[kernels][attention]") {
  const std::int32_t page = 0;
  const kernels::attention_backward<float> op{.shape = {.pages = &page}};
  CHECK_THROWS_AS(tests::on_cpu(op), std::logic_error);
}

TEMPLATE_TEST_CASE("a row of a product has the same bits alone and among any number of rows",
                   "[kernels][linear]",
                   float,
                   kernels::bf16,
                   kernels::f16) {
  const tests::vector_target only(GENERATE(from_range(every_target())));
  constexpr std::int64_t rows = 400;  // so many that float takes tiles otherwise
  // Tiles read an expert's weight in place if it has whole squares.
  const auto [N, K] = GENERATE(std::pair<std::int64_t, std::int64_t>{330, 257},
                               std::pair<std::int64_t, std::int64_t>{352, 256});
  const auto x = drawn<TestType>(std::size_t(rows * K), 4),
             weight = drawn<TestType>(std::size_t(N * K), 5),
             bias = drawn<TestType>(std::size_t(N), 6);
  const auto product = [&, N = N, K = K](bool of_expert, std::int64_t first, std::int64_t n) {
    std::vector<TestType> y(std::size_t(n * N));
    const std::int64_t offsets[] = {0, n};
    const std::int32_t expert = 0;
    if (of_expert)
      tests::on_cpu(kernels::grouped_linear_forward<TestType>{.y = y.data(),
                                                              .x = x.data() + first * K,
                                                              .weight = weight.data(),
                                                              .bias = bias.data(),
                                                              .groups = {offsets, &expert, 1},
                                                              .R = n,
                                                              .E = 1,
                                                              .N = N,
                                                              .K = K,
                                                              .row_invariant = true});
    else
      tests::on_cpu(kernels::linear_forward<TestType>{.y = y.data(),
                                                      .z = nullptr,
                                                      .x = x.data() + first * K,
                                                      .weight = weight.data(),
                                                      .bias = bias.data(),
                                                      .R = n,
                                                      .N = N,
                                                      .K = K,
                                                      .row_invariant = true});
    return y;
  };
  for (const bool of_expert : {false, true}) {
    const auto whole = product(of_expert, 0, rows);
    for (const std::int64_t chunk : {1, 7, 9, 33, 300}) {
      std::vector<TestType> parts;
      for (std::int64_t first = 0; first < rows; first += chunk) {
        const auto part = product(of_expert, first, std::min(chunk, rows - first));
        parts.insert(parts.end(), part.begin(), part.end());
      }
      CHECK(equal_bits(parts, whole));
    }
  }
}
