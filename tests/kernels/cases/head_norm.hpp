// Cases of head norms (op_case.hpp).

#pragma once

#include "tests/kernels/op_case.hpp"

#include <array>

namespace troupe::tests {

/// Heads in a fused array (R, G, heads + 2, D); the last two of each group are not normalised.
struct head_norm_extents {
  std::int64_t R, G, heads, D;
  kernels::normalization kind;
  float gain_offset = 0;

  bool layer() const { return kind == kernels::normalization::layer; }
  std::int64_t rows() const { return R * G * heads; }
  std::int64_t all() const { return R * G * (heads + 2) * D; }
  double units() const { return roundings_in_lanes(D); }
  /// With one or two elements, differences cancel, like in norms of rows.
  double cancelled() const { return D <= 2 ? 3000 : 0; }
  kernels::head_norm_shape shape() const {
    return {.R = R,
            .G = G,
            .heads = heads,
            .D = D,
            .row = G * (heads + 2) * D,
            .group = (heads + 2) * D,
            .eps = 1e-5F,
            .kind = kind,
            .gain_offset = gain_offset};
  }
  /// bytes_moved() counts only the elements of the heads.
  void count(arrays& a) const {
    for (const char* name : {"x", "y", "dx", "dy"})
      if (a.find(name) != nullptr)
        a.counts(name, rows() * D);
    for (const char* name : {"gain", "bias", "mean", "rstd", "dgain", "dbias"})
      if (a.find(name) != nullptr)
        a.counts(name, 0);
  }

  op_maker forward() const {
    return makes([s = *this](auto t, arrays& a) {
      using T = decltype(t);
      const kernels::head_norm_forward<T> op{
          .y = a.out<T>("y", s.all(), s.units(), s.cancelled()),
          .mean = a.out<float>("mean", s.rows(), s.units(), 1),
          .rstd = a.out<float>("rstd", s.rows(), s.units(), 1),
          .x = a.in<T>("x", normal_numbers(s.all())),
          .gain = a.in<T>("gain", normal_numbers(s.D)),
          .bias = s.layer() ? a.in<T>("bias", normal_numbers(s.D)) : nullptr,
          .shape = s.shape()};
      s.count(a);
      return op;
    });
  }
  op_maker backward_input() const {
    return makes([s = *this](auto t, arrays& a) {
      using T = decltype(t);
      const kernels::head_norm_backward_input<T> op{
          .dx = a.out<T>("dx", s.all(), s.units(), s.cancelled()),
          .dy = a.in<T>("dy", normal_numbers(s.all())),
          .x = a.in<T>("x", normal_numbers(s.all())),
          .gain = a.in<T>("gain", normal_numbers(s.D)),
          .mean = a.in<float>("mean", normal_numbers(s.rows())),
          .rstd = a.in<float>("rstd", normal_numbers(s.rows())),
          .shape = s.shape()};
      s.count(a);
      return op;
    });
  }
  op_maker backward_weight(bool accumulates = true) const {
    return makes([s = *this, accumulates](auto t, arrays& a) {
      using T = decltype(t);
      using sum = kernels::accumulator<T>;
      const double units = roundings_of_sum(s.rows()), size = s.cancelled();
      const kernels::head_norm_backward_weight<T> op{
          .dgain = total_of<sum>(a, "dgain", s.D, accumulates, units, size),
          .dbias = s.layer() ? total_of<sum>(a, "dbias", s.D, accumulates, units) : nullptr,
          .dy = a.in<T>("dy", normal_numbers(s.all())),
          .x = a.in<T>("x", normal_numbers(s.all())),
          .mean = a.in<float>("mean", normal_numbers(s.rows())),
          .rstd = a.in<float>("rstd", normal_numbers(s.rows())),
          .shape = s.shape(),
          .gain_accumulates = accumulates,
          .bias_accumulates = accumulates};
      s.count(a);
      return op;
    });
  }
};

inline op_family head_norm_family() {
  using kernels::normalization;
  op_family out{.name = "head_norm"};
  for (const auto kind : {normalization::layer, normalization::rms}) {
    // One element; primes; a vector; common head sizes; a head too large for a warp; several blocks
    // and threads.
    for (const auto& [R, G, heads, D] : {std::array<std::int64_t, 4>{1, 1, 1, 1},
                                         {3, 2, 3, 7},
                                         {7, 1, 2, 16},
                                         {5, 3, 2, 64},
                                         {7, 2, 4, 128},
                                         {9, 3, 2, 131},
                                         {3, 1, 3, 256},
                                         {2, 2, 1, 520},
                                         {41, 2, 3, 24},
                                         {400, 2, 3, 33}}) {
      for (const float offset : {0.0F, 1.0F}) {
        const head_norm_extents s{R, G, heads, D, kind, offset};
        const std::string shape = (s.layer() ? "layer " : "rms ")
                                  + shape_text({{"R", R}, {"G", G}, {"heads", heads}, {"D", D}});
        const bool large = R == 400;
        const auto before = s.forward();
        out.cases.push_back(
            {.shape = shape, .op = s.forward(), .in_place = {{"y", "x"}}, .large = large});
        out.cases.push_back({.shape = shape,
                             .op = s.backward_input(),
                             .before = before,
                             .in_place = {{"dx", "dy"}},
                             .large = large});
        // The gain offset does not affect these sums, so these cases use it to test overwriting.
        out.cases.push_back({.shape = shape + (offset == 0 ? "" : " written"),
                             .op = s.backward_weight(offset == 0),
                             .before = before,
                             .large = large});
      }
    }
    for (const float offset : {0.0F, 1.0F}) {
      const head_norm_extents s{3, 2, 2, 7, kind, offset};
      out.gradients.push_back({.shape = s.layer() ? "layer" : "rms",
                               .forward = {s.forward()},
                               .backward = {s.backward_input(), s.backward_weight()},
                               .tolerance = 1e-6});
    }
  }
  return out;
}

}  // namespace troupe::tests
