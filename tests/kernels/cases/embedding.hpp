// Cases of embeddings (op_case.hpp).

#pragma once

#include "tests/kernels/op_case.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace troupe::tests {

struct embedding_extents {
  std::int64_t R, C, V, P;
  bool with_positions;
  std::int32_t first = 0, rows = std::numeric_limits<std::int32_t>::max();
  bool accumulates = true;

  const std::int32_t* ids(arrays& a) const {
    // With a table shard, some ids are in other shards.
    return a.in<std::int32_t>("id", whole_numbers(R, V));
  }
  const std::int32_t* positions(arrays& a) const {
    return with_positions ? a.in<std::int32_t>("position", whole_numbers(R, P)) : nullptr;
  }

  op_maker forward() const {
    return makes([s = *this](auto t, arrays& a) {
      using T = decltype(t);
      const kernels::embedding_forward<T> op{
          .y = a.out<T>("y", s.R * s.C, 1),  // one sum
          .table = a.in<T>("table", normal_numbers(s.V * s.C)),
          .id = s.ids(a),
          .position_table
          = s.with_positions ? a.in<T>("position_table", normal_numbers(s.P * s.C)) : nullptr,
          .position = s.positions(a),
          .R = s.R,
          .C = s.C,
          .first = s.first,
          .rows = s.rows};
      a.counts("table", s.R * s.C);
      if (s.with_positions)
        a.counts("position_table", s.R * s.C);
      return op;
    });
  }
  op_maker backward() const {
    return makes([s = *this](auto t, arrays& a) {
      using T = decltype(t);
      using sum = kernels::accumulator<T>;
      const double units = roundings_of_sum(s.R);  // one token may be in every row
      const kernels::embedding_backward<T> op{
          .dtable = s.accumulates ? a.changed<sum>("dtable", normal_numbers(s.V * s.C), units)
                                  : a.out<sum>("dtable", s.rows * s.C, units),
          .id = s.ids(a),
          .dposition_table
          = s.with_positions ? a.changed<sum>("dposition_table", normal_numbers(s.P * s.C), units)
                             : nullptr,
          .position = s.positions(a),
          .dy = a.in<T>("dy", normal_numbers(s.R * s.C)),
          .R = s.R,
          .C = s.C,
          .first = s.first,
          .rows = s.rows,
          .accumulates = s.accumulates};
      // Accumulated elements are read and written.
      a.counts("dtable", s.accumulates ? s.R * s.C : s.rows * s.C + 2 * s.R * s.C);
      if (s.with_positions)
        a.counts("dposition_table", s.R * s.C);
      return op;
    });
  }
};

inline op_family embedding_family() {
  op_family out{.name = "embedding"};
  const auto add = [&out](const embedding_extents& s) {
    const std::string shape = shape_text({{"R", s.R}, {"C", s.C}, {"V", s.V}, {"P", s.P}})
                              + " from " + std::to_string(s.first)
                              + (s.accumulates ? "" : " written " + std::to_string(s.rows))
                              + (s.with_positions ? " with positions" : "");
    const bool large = (s.R + (s.accumulates ? 0 : s.rows)) * s.C > 150000;
    out.cases.push_back({.shape = shape, .op = s.forward(), .large = large});
    out.cases.push_back({.shape = shape, .op = s.backward(), .large = large});
  };
  for (const bool positions : {false, true}) {
    // No rows; one element; primes; whole packs; few tokens many times, more than a warp takes at
    // once; more rows than one, two and four key tiles; several threads.
    for (const auto& [R, C, V, P] : {std::array<std::int64_t, 4>{0, 8, 3, 3},
                                     {1, 1, 1, 1},
                                     {7, 5, 11, 3},
                                     {61, 24, 13, 61},
                                     {131, 264, 3, 17},
                                     {2049, 8, 1000, 100},
                                     {5003, 3, 2, 1024},
                                     {8200, 2, 300, 50},
                                     {2053, 133, 17, 64}})
      add({R, C, V, P, positions});
    // The table is a shard, in some cases without rows.
    for (const std::int32_t first : {0, 5, 37})
      for (const std::int32_t rows : {0, 11})
        add({61, 24, 50, 7, positions, first, rows});
    // The table is overwritten; large ones bypass the caches.
    for (const std::int32_t rows : {1, 13, 70001})
      add({61, 24, std::min(rows, 50), 7, positions, 0, rows, false});
    add({61, 24, 50, 7, positions, 5, 11, false});  // a shard
    add({61, 24, 50, 7, positions, 0, 0, false});
    add({0, 8, 3, 3, positions, 0, 3, false});
  }
  for (const bool positions : {false, true}) {
    const embedding_extents s{9, 3, 4, 5, positions};  // 9 rows, 4 tokens
    out.gradients.push_back({.shape = positions ? "with positions" : "",
                             .forward = {s.forward()},
                             .backward = {s.backward()}});
  }
  return out;
}

}  // namespace troupe::tests
