// Cases of rotary embeddings, in place, forward and backward (op_case.hpp).

#pragma once

#include "tests/kernels/op_case.hpp"

#include <array>

namespace troupe::tests {

/// Heads in a fused array (R, G, heads + 1, D); the last of each group is not rotated.
struct rope_extents {
  std::int64_t R, G, heads, D, rotated;
  bool interleaved;
  float magnitude = 1;

  op_maker turn(bool backward, const char* x = "x") const {
    return makes([s = *this, backward, x](auto t, arrays& a) {
      using T = decltype(t);
      // Positions for which a float angle would be inaccurate, and some small ones.
      std::vector<double> positions, frequencies;
      for (std::int64_t r = 0; r < s.R; ++r)
        positions.push_back(r == 0 ? 1000003 : r == 1 ? 2147483647 : double(r * 977 % 4096));
      for (std::int64_t i = 0; i < s.rotated / 2; ++i)
        frequencies.push_back(
            double(float(std::pow(10000.0, -2.0 * double(i) / double(s.rotated)))));
      const std::int64_t group = (s.heads + 1) * s.D;
      const kernels::rope<T> op{// A rounded sine, its magnitude, two products and a sum.
                                .x = a.changed<T>(x, normal_numbers(s.R * s.G * group), 6),
                                .position = a.in<std::int32_t>("position", listed(positions)),
                                .frequency = a.in<float>("frequency", listed(frequencies)),
                                .R = s.R,
                                .G = s.G,
                                .heads = s.heads,
                                .D = s.D,
                                .rotated = s.rotated,
                                .row = s.G * group,
                                .group = group,
                                .interleaved = s.interleaved,
                                .backward = backward,
                                .magnitude = s.magnitude};
      a.counts(x, s.R * s.G * s.heads * s.rotated);
      a.counts("frequency", 0);
      return op;
    });
  }
};

inline op_family rope_family() {
  op_family out{.name = "rope"};
  // No rows; one pair; primes; a part of a head; half of a vector; common head sizes; more pairs
  // than are kept at once; several threads.
  for (const auto& [R, G, heads, D, rotated] : {std::array<std::int64_t, 5>{0, 1, 1, 8, 8},
                                                {1, 1, 1, 2, 2},
                                                {3, 2, 3, 7, 6},
                                                {5, 2, 3, 22, 14},
                                                {37, 1, 2, 16, 8},
                                                {13, 2, 3, 64, 64},
                                                {5, 3, 5, 128, 128},
                                                {11, 1, 3, 80, 32},
                                                {2, 1, 2, 1056, 1040},
                                                {2, 1, 2, 1100, 1066},
                                                {67, 3, 5, 64, 64}})
    for (const bool interleaved : {false, true})
      for (const bool backward : {false, true})
        out.cases.push_back(
            {.shape
             = shape_text({{"R", R}, {"G", G}, {"heads", heads}, {"D", D}, {"rotated", rotated}})
               + (interleaved ? " interleaved" : "") + (backward ? " backward" : ""),
             .op = rope_extents{R, G, heads, D, rotated, interleaved}.turn(backward),
             .same_bits_by_address = true,
             .large = R * G * heads * D > 40000});
  for (const bool backward : {false, true})
    out.cases.push_back({.shape = std::string("with a magnitude") + (backward ? " backward" : ""),
                         .op = rope_extents{13, 2, 3, 64, 32, false, 1.25F}.turn(backward),
                         .same_bits_by_address = true});
  for (const bool interleaved : {false, true}) {
    const rope_extents s{3, 2, 2, 5, 4, interleaved, 0.75F};
    out.gradients.push_back({.shape = interleaved ? "interleaved" : "",
                             .forward = {s.turn(false)},
                             .backward = {s.turn(true, "dx")}});
  }
  return out;
}

}  // namespace troupe::tests
