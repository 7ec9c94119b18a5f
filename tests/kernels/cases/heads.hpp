// Cases of copies and sums of heads (op_case.hpp).

#pragma once

#include "tests/kernels/op_case.hpp"

#include <array>

namespace troupe::tests {

/// Heads in arrays with `gap` unused elements behind each head and each row.
struct heads_extents {
  std::int64_t R, G, width;
  std::int64_t gap = 0;
  bool shared = false;  ///< every group is copied from the same source

  std::int64_t group() const { return width + gap; }
  std::int64_t row(std::int64_t groups) const { return groups * group() + gap; }
  std::string text() const {
    return shape_text({{"R", R}, {"G", G}, {"width", width}, {"gap", gap}});
  }

  op_maker copy(const char* to = "y", const char* from = "x") const {
    return makes([s = *this, to, from](auto t, arrays& a) {
      using T = decltype(t);
      const auto sources = s.shared ? 1 : s.G;
      const kernels::copy_heads<T> op{.to = a.out<T>(to, s.R * s.row(s.G), 0),
                                      .from = a.in<T>(from, normal_numbers(s.R * s.row(sources))),
                                      .R = s.R,
                                      .G = s.G,
                                      .width = s.width,
                                      .to_row = s.row(s.G),
                                      .to_group = s.group(),
                                      .from_row = s.row(sources),
                                      .from_group = s.shared ? 0 : s.group()};
      a.counts(to, s.R * s.G * s.width);
      a.counts(from, s.R * sources * s.width);
      return op;
    });
  }
  op_maker sum(const char* to = "y", const char* from = "x") const {
    return makes([s = *this, to, from](auto t, arrays& a) {
      using T = decltype(t);
      const kernels::sum_heads<T> op{.to = a.out<T>(to, s.R * s.row(1), roundings_of_sum(s.G)),
                                     .from = a.in<T>(from, normal_numbers(s.R * s.row(s.G))),
                                     .R = s.R,
                                     .G = s.G,
                                     .width = s.width,
                                     .to_row = s.row(1),
                                     .from_row = s.row(s.G),
                                     .from_group = s.group()};
      a.counts(to, s.R * s.width);
      a.counts(from, s.R * s.G * s.width);
      return op;
    });
  }
};

inline op_family heads_family() {
  op_family out{.name = "heads"};
  // No rows; one element; a part of a vector; primes; whole vectors; several threads.
  for (const auto& [R, G, width] : {std::array<std::int64_t, 3>{0, 2, 8},
                                    {1, 1, 1},
                                    {3, 2, 5},
                                    {7, 3, 37},
                                    {11, 4, 64},
                                    {67, 5, 128}})
    for (const std::int64_t gap : {0, 3, 16}) {
      const heads_extents s{R, G, width, gap};
      out.cases.push_back({.shape = s.text(), .op = s.copy(), .same_bits_by_address = true});
      out.cases.push_back({.shape = s.text(), .op = s.sum(), .same_bits_by_address = true});
      auto shared = s;
      shared.shared = true;
      out.cases.push_back(
          {.shape = s.text() + " shared", .op = shared.copy(), .same_bits_by_address = true});
    }
  out.gradients.push_back({.shape = "shared",
                           .forward = {heads_extents{3, 4, 5, 0, true}.copy()},
                           .backward = {heads_extents{3, 4, 5}.sum("dx", "dy")}});
  out.gradients.push_back({.shape = "apart",
                           .forward = {heads_extents{3, 4, 5}.copy()},
                           .backward = {heads_extents{3, 4, 5}.copy("dx", "dy")}});
  return out;
}

}  // namespace troupe::tests
