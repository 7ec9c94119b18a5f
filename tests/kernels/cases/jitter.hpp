// Cases of jitter (op_case.hpp).

#pragma once

#include "tests/kernels/op_case.hpp"

#include <array>

namespace troupe::tests {

inline op_family jitter_family() {
  op_family out{.name = "jitter"};
  // Sequences and rows that end inside a block of four words, as for dropout.
  for (const auto& [sequences, T_, C, first] : {std::array<std::int64_t, 4>{1, 1, 1, 0},
                                                {3, 5, 7, 2},
                                                {2, 64, 16, 0},
                                                {4, 5, 12, 13},
                                                {1, 11, 1030, 0},
                                                {5, 37, 131, 5}}) {
    const std::int64_t rows = sequences * T_ - first;
    out.cases.push_back(
        {.shape = shape_text({{"sequences", sequences}, {"T", T_}, {"C", C}, {"from row", first}}),
         .op = makes([=, sequences = sequences, T_ = T_, C = C, first = first](auto t, arrays& a) {
           using T = decltype(t);
           std::vector<double> samples;
           for (std::int64_t s = 0; s < sequences; ++s)
             samples.push_back(s == 1 ? 0x1p40 : double(100 + s));
           const auto* const sample = a.in<std::uint64_t>("sample", listed(samples));
           a.counts("sample", 0);
           return kernels::jitter<T>{.y = a.out<T>("y", rows * C, 4),
                                     .x = a.in<T>("x", normal_numbers(rows * C)),
                                     .R = rows,
                                     .C = C,
                                     .T_ = T_,
                                     .eps = 0.01F,
                                     .key = 0xfedcba9876543210U,
                                     .sample = sample,
                                     .first_row = first};
         }),
         .in_place = {{"y", "x"}},
         .large = rows * C > 16384});
  }
  return out;
}

}  // namespace troupe::tests
