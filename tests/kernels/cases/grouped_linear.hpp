// Cases of grouped products (op_case.hpp).

#pragma once

#include "tests/kernels/op_case.hpp"

#include <numeric>

namespace troupe::tests {

struct grouped_extents {
  std::vector<std::int64_t> rows;     ///< of each group
  std::vector<std::int32_t> experts;  ///< of each group
  std::int64_t E, N, K;
  bool with_bias = true;

  std::int64_t R() const { return std::accumulate(rows.begin(), rows.end(), std::int64_t{0}); }
  kernels::row_groups groups(arrays& a) const {
    std::vector<std::int64_t> offsets{0};
    for (const std::int64_t n : rows)
      offsets.push_back(offsets.back() + n);
    return {a.on_host(std::move(offsets)), a.on_host(experts), std::int64_t(rows.size())};
  }

  op_maker forward() const {
    return makes([s = *this](auto t, arrays& a) {
      using T = decltype(t);
      const kernels::grouped_linear_forward<T> op{
          .y = a.out<T>("y", s.R() * s.N, roundings_of_sum(s.K + 1)),
          .x = a.in<T>("x", normal_numbers(s.R() * s.K)),
          .weight = a.in<T>("weight", normal_numbers(s.E * s.N * s.K)),
          .bias = s.with_bias ? a.in<T>("bias", normal_numbers(s.E * s.N)) : nullptr,
          .groups = s.groups(a),
          .R = s.R(),
          .E = s.E,
          .N = s.N,
          .K = s.K};
      a.multiplied("y", s.K);
      return op;
    });
  }
  op_maker backward_input() const {
    return makes([s = *this](auto t, arrays& a) {
      using T = decltype(t);
      const kernels::grouped_linear_backward_input<T> op{
          .dx = a.out<T>("dx", s.R() * s.K, roundings_of_sum(s.N)),
          .dy = a.in<T>("dy", normal_numbers(s.R() * s.N)),
          .weight = a.in<T>("weight", normal_numbers(s.E * s.N * s.K)),
          .groups = s.groups(a),
          .R = s.R(),
          .E = s.E,
          .N = s.N,
          .K = s.K};
      a.multiplied("dx", s.N);
      return op;
    });
  }
  op_maker backward_weight(bool accumulates = true) const {
    return makes([s = *this, accumulates](auto t, arrays& a) {
      using T = decltype(t);
      using sum = kernels::accumulator<T>;
      const double units = roundings_of_sum(s.R() + std::int64_t(s.rows.size()) + 1);
      const kernels::grouped_linear_backward_weight<T> op{
          .dweight = total_of<sum>(a, "dweight", s.E * s.N * s.K, accumulates, units),
          .dbias = s.with_bias ? total_of<sum>(a, "dbias", s.E * s.N, accumulates, units) : nullptr,
          .dy = a.in<T>("dy", normal_numbers(s.R() * s.N)),
          .x = a.in<T>("x", normal_numbers(s.R() * s.K)),
          .groups = s.groups(a),
          .R = s.R(),
          .E = s.E,
          .N = s.N,
          .K = s.K,
          .accumulates = accumulates,
          .bias_accumulates = accumulates};
      a.multiplied("dweight", s.R());
      return op;
    });
  }

  std::string text() const {
    std::string out = shape_text({{"E", E}, {"N", N}, {"K", K}}) + " groups";
    for (std::size_t g = 0; g < rows.size(); ++g)
      out += " " + std::to_string(experts[g]) + ":" + std::to_string(rows[g]);
    return out + (with_bias ? "" : " without bias");
  }
};

inline op_family grouped_linear_family() {
  op_family out{.name = "grouped_linear"};
  const auto add = [&out](const grouped_extents& s, bool large = false) {
    for (const auto& op : {s.forward(), s.backward_input(), s.backward_weight()})
      out.cases.push_back({.shape = s.text(), .op = op, .large = large});
    out.cases.push_back(
        {.shape = s.text() + " written", .op = s.backward_weight(false), .large = large});
  };
  // The quick test on devices takes cases 0 and 7 of each operation, and of W also 10, 13 and 16
  // (tests/kernels_cuda/op_tester_test.cpp). Case 0 has all paths of whole packs: two sources of
  // each expert, several tiles of rows, columns and terms, an expert without rows. Case 7 has no
  // whole packs.
  add({{40, 2, 33, 71}, {1, 0, 1, 0}, 3, 136, 144});
  // No groups; groups without rows; single rows; one group; an expert without rows, and two sources
  // of each of the others; mixed experts with whole packs; tails of blocks.
  add({{}, {}, 2, 5, 3});
  add({{0, 0}, {0, 1}, 2, 5, 3});
  add({{1, 1, 1}, {0, 1, 2}, 3, 7, 9, false});
  add({{17}, {0}, 1, 65, 33});
  add({{3, 0, 5, 1}, {0, 0, 1, 1}, 3, 13, 27});
  add({{40, 2, 33, 64}, {1, 0, 1, 0}, 2, 72, 40, false});
  add({{7, 71}, {1, 0}, 2, 130, 72});
  // More groups than a device's list.
  const grouped_extents many{
      std::vector<std::int64_t>(250, 1), std::vector<std::int32_t>(250, 1), 2, 8, 16, false};
  out.cases.push_back({.shape = "250 groups", .op = many.backward_weight(false)});
  // Several parts of rows and columns; more terms than a panel, than a packing of floats and than
  // one of bf16, in each direction.
  add({{500, 9}, {0, 1}, 2, 600, 64, false}, true);
  add({{64, 33}, {0, 0}, 1, 96, 600}, true);
  add({{33, 2}, {0, 1}, 2, 70, 1600}, true);
  add({{40, 30}, {0, 1}, 2, 70, 4200}, true);
  add({{4200, 40}, {0, 1}, 2, 33, 40}, true);
  add({{35}, {0}, 1, 4200, 161}, true);
  // A weight of whole squares, which tiles read in place; with more terms than a packing, and more
  // rows than are packed at a time.
  add({{70, 33}, {0, 0}, 1, 64, 544}, true);
  add({{150}, {0}, 1, 32, 4128}, true);
  // Short groups that share a tile: two of 16 terms, then four of 8, with and without a rest.
  add({{16, 9, 11}, {0, 0, 0}, 1, 40, 70});
  add({{7, 8, 1, 5, 3, 2}, {0, 0, 0, 0, 0, 0}, 1, 40, 70});
  for (const bool with_bias : {false, true}) {
    const grouped_extents s{{2, 0, 3, 1}, {1, 0, 1, 0}, 3, 4, 3, with_bias};
    out.gradients.push_back({.shape = with_bias ? "with bias" : "",
                             .forward = {s.forward()},
                             .backward = {s.backward_input(), s.backward_weight()}});
  }
  return out;
}

}  // namespace troupe::tests
