// Cases of dropout (op_case.hpp).

#pragma once

#include "tests/kernels/op_case.hpp"

#include <array>

namespace troupe::tests {

struct dropout_extents {
  std::int64_t sequences, T_, C;
  float p;
  bool with_residual, with_bias;
  std::int64_t first_row = 0;
  float scale = 1;

  std::int64_t rows() const { return sequences * T_ - first_row; }
  std::int64_t all() const { return rows() * C; }
  /// Sample positions that use every bit: the second exceeds 32 bits, the third is the largest that
  /// a double can represent.
  const std::uint64_t* samples(arrays& a) const {
    std::vector<double> positions;
    for (std::int64_t s = 0; s < sequences; ++s)
      positions.push_back(s == 1 ? 0x1p40 : s == 2 ? 0x1p64 - 0x1p11 : double(100 + s));
    const auto* const out = a.in<std::uint64_t>("sample", listed(positions));
    a.counts("sample", 0);
    return out;
  }

  op_maker forward() const {
    return makes([s = *this](auto t, arrays& a) {
      using T = decltype(t);
      const kernels::dropout_forward<T> op{
          .y = a.out<T>("y", s.all(), 4),  // two sums and a product
          .x = a.in<T>("x", normal_numbers(s.all())),
          .residual = s.with_residual ? a.in<T>("residual", normal_numbers(s.all())) : nullptr,
          .R = s.rows(),
          .C = s.C,
          .T_ = s.T_,
          .p = s.p,
          .key = 0xfedcba9876543210U,
          .sample = s.p > 0 ? s.samples(a) : nullptr,
          .first_row = s.first_row,
          .bias = s.with_bias ? a.in<T>("bias", normal_numbers(s.C)) : nullptr,
          .scale = s.scale};
      if (s.with_bias)
        a.counts("bias", 0);
      return op;
    });
  }
  op_maker backward() const {
    return makes([s = *this](auto t, arrays& a) {
      using T = decltype(t);
      return kernels::dropout_backward<T>{.dx = a.out<T>("dx", s.all(), 2),
                                          .dy = a.in<T>("dy", normal_numbers(s.all())),
                                          .R = s.rows(),
                                          .C = s.C,
                                          .T_ = s.T_,
                                          .p = s.p,
                                          .key = 0xfedcba9876543210U,
                                          .sample = s.p > 0 ? s.samples(a) : nullptr,
                                          .first_row = s.first_row,
                                          .scale = s.scale};
    });
  }
};

inline op_family dropout_family() {
  op_family out{.name = "dropout"};
  // One element; primes; sequences that end inside a block of four words, a vector and a chunk;
  // rows of several word blocks and packs; a row that begins inside a word block; a part of the
  // rows; several threads.
  for (const auto& [sequences, T_, C, first] : {std::array<std::int64_t, 4>{1, 1, 1, 0},
                                                {3, 5, 7, 0},
                                                {2, 64, 16, 0},
                                                {3, 5, 12, 0},
                                                {5, 3, 136, 0},
                                                {1, 11, 1030, 0},
                                                {4, 5, 7, 13},
                                                {4, 5, 64, 1},
                                                {5, 37, 131, 5},
                                                {2, 67, 521, 0}}) {
    for (const float p : {0.0F, 0.1F, 0.999F}) {
      const bool large = sequences * T_ * C > 32768;
      const std::string shape = shape_text({{"sequences", sequences}, {"T", T_}, {"C", C}})
                                + " from row " + std::to_string(first) + " p " + std::to_string(p);
      for (const bool with_residual : {false, true})
        for (const bool with_bias : {false, true}) {
          const dropout_extents s{sequences, T_, C, p, with_residual, with_bias, first};
          out.cases.push_back(
              {.shape = shape, .op = s.forward(), .in_place = {{"y", "x"}}, .large = large});
          if (with_residual)
            out.cases.back().in_place.push_back({"y", "residual"});
        }
      const dropout_extents s{sequences, T_, C, p, false, false, first};
      out.cases.push_back(
          {.shape = shape, .op = s.backward(), .in_place = {{"dx", "dy"}}, .large = large});
    }
  }
  for (const float p : {0.0F, 0.1F})
    for (const bool added : {false, true}) {
      const dropout_extents s{3, 5, 37, p, added, added, 2, 0.125F};
      const auto shape = "scaled p " + std::to_string(p) + (added ? " with residual and bias" : "");
      out.cases.push_back({.shape = shape, .op = s.forward(), .in_place = {{"y", "x"}}});
      if (!added)
        out.cases.push_back({.shape = shape, .op = s.backward(), .in_place = {{"dx", "dy"}}});
    }
  const dropout_extents s{2, 3, 5, 0.4F, true, true, 0, 0.5F};
  out.gradients.push_back({.shape = "", .forward = {s.forward()}, .backward = {s.backward()}});
  return out;
}

}  // namespace troupe::tests
