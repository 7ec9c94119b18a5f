// Cases of norms of rows (op_case.hpp).

#pragma once

#include "tests/kernels/op_case.hpp"

namespace troupe::tests {

struct norm_extents {
  std::int64_t R, C;
  kernels::normalization kind;
  bool with_residual = false;
  float gain_offset = 0;

  static constexpr std::int64_t summand = 100;  ///< upper limit: the sum of two is below 2^8

  bool layer() const { return kind == kernels::normalization::layer; }
  /// Without variance, rstd is up to 316 and its factor cancels.
  double cancelled() const { return C <= 2 ? 3000 : 0; }

  /// `adds`: normalises x + residual. The sums are whole numbers, so every type represents them
  /// exactly.
  op_maker forward(bool adds = false) const {
    return makes([s = *this, adds](auto t, arrays& a) {
      using T = decltype(t);
      const double units = roundings_in_lanes(s.C), size = adds ? summand : 1;
      const auto numbers = adds ? whole_numbers(s.R * s.C, summand) : normal_numbers(s.R * s.C);
      return kernels::norm_forward<T>{
          .y = a.out<T>("y", s.R * s.C, units, size * s.cancelled()),
          .mean = a.out<float>("mean", s.R, units, size),
          .rstd = a.out<float>("rstd", s.R, units, size),
          .x = a.in<T>("x", numbers),
          .gain = a.in<T>("gain", normal_numbers(s.C)),
          .bias = s.layer() ? a.in<T>("bias", normal_numbers(s.C)) : nullptr,
          .R = s.R,
          .C = s.C,
          .eps = 1e-5F,
          .kind = s.kind,
          .gain_offset = s.gain_offset,
          .residual = adds ? a.in<T>("residual", numbers) : nullptr,
          .sum = adds ? a.out<T>("sum", s.R * s.C, 0) : nullptr};
    });
  }
  op_maker backward_input(const char* x = "x", const char* residual = "residual") const {
    return makes([s = *this, x, residual](auto t, arrays& a) {
      using T = decltype(t);
      return kernels::norm_backward_input<T>{
          .dx = a.out<T>("dx", s.R * s.C, roundings_in_lanes(s.C), s.cancelled()),
          .dy = a.in<T>("dy", normal_numbers(s.R * s.C)),
          .x = a.in<T>(x, normal_numbers(s.R * s.C)),
          .gain = a.in<T>("gain", normal_numbers(s.C)),
          .mean = a.in<float>("mean", normal_numbers(s.R)),
          .rstd = a.in<float>("rstd", normal_numbers(s.R)),
          .R = s.R,
          .C = s.C,
          .kind = s.kind,
          .residual = s.with_residual ? a.in<T>(residual, normal_numbers(s.R * s.C)) : nullptr,
          .gain_offset = s.gain_offset};
    });
  }
  op_maker backward_weight(bool accumulates = true, const char* x = "x") const {
    return makes([s = *this, accumulates, x](auto t, arrays& a) {
      using T = decltype(t);
      using sum = kernels::accumulator<T>;
      const double units = roundings_of_sum(s.R), size = s.cancelled();
      return kernels::norm_backward_weight<T>{
          .dgain = total_of<sum>(a, "dgain", s.C, accumulates, units, size),
          .dbias = s.layer() ? total_of<sum>(a, "dbias", s.C, accumulates, units) : nullptr,
          .dy = a.in<T>("dy", normal_numbers(s.R * s.C)),
          .x = a.in<T>(x, normal_numbers(s.R * s.C)),
          .mean = a.in<float>("mean", normal_numbers(s.R)),
          .rstd = a.in<float>("rstd", normal_numbers(s.R)),
          .R = s.R,
          .C = s.C,
          .kind = s.kind,
          .gain_accumulates = accumulates,
          .bias_accumulates = accumulates};
    });
  }
};

inline op_family norm_family() {
  using kernels::normalization;
  op_family out{.name = "norm"};
  const auto add = [&out](const norm_extents& s) {
    const std::string shape = (s.layer() ? "layer " : "rms ") + shape_text({{"R", s.R}, {"C", s.C}})
                              + (s.with_residual ? " with residual" : "");
    const bool large = s.R * s.C > 21000;
    const auto before = s.forward();
    if (s.with_residual)
      out.cases.push_back({.shape = shape,
                           .op = s.forward(true),
                           .in_place = {{"sum", "x"}, {"sum", "residual"}},
                           .large = large});
    else
      out.cases.push_back({.shape = shape, .op = s.forward(), .large = large});
    out.cases.push_back(
        {.shape = shape, .op = s.backward_input(), .before = before, .large = large});
    // With a residual, results are overwritten; without, accumulated. The two options are
    // independent.
    out.cases.push_back({.shape = shape + (s.with_residual ? " written" : ""),
                         .op = s.backward_weight(!s.with_residual),
                         .before = before,
                         .large = large});
  };
  for (const auto kind : {normalization::layer, normalization::rms}) {
    // Empty; one element; primes; below, at and above four vectors; rows of 1 to 4 packs per lane
    // of 8, 16 or 32, with some lanes idle; many rows, for several blocks and threads.
    for (const auto& [R, C] : {std::pair<std::int64_t, std::int64_t>{0, 19},
                               {1, 1},
                               {3, 7},
                               {5, 61},
                               {37, 64},
                               {2, 65},
                               {131, 88},
                               {19, 136},
                               {5, 256},
                               {131, 257},
                               {11, 264},
                               {3, 520},
                               {9, 768},
                               {2, 1000},
                               {64, 8},
                               {65, 40},
                               {700, 24},
                               {1031, 7},
                               {2100, 33}}) {
      add({R, C, kind});
      add({R, C, kind, true, 1});
    }
    // Rows of several packs per lane of a block, and rows that exceed its registers.
    for (const auto& [R, C] : {std::pair<std::int64_t, std::int64_t>{2, 1544},
                               {3, 2048},
                               {2, 4104},
                               {1, 8192},
                               {2, 8200},
                               {1, 20480}})
      add({R, C, kind, R == 2, R == 2 ? 1.0F : 0.0F});
    for (const float offset : {0.0F, 1.0F}) {
      const norm_extents s{3, 9, kind, false, offset};
      out.gradients.push_back({.shape = s.layer() ? "layer" : "rms",
                               .forward = {s.forward()},
                               .backward = {s.backward_input(), s.backward_weight()},
                               .tolerance = 1e-6});
      const norm_extents sum{3, 9, kind, true, offset};
      out.gradients.push_back(
          {.shape = sum.layer() ? "layer of a sum" : "rms of a sum",
           .forward = {sum.forward(true)},
           .backward = {sum.backward_input("sum", "dsum"), sum.backward_weight(true, "sum")},
           .tolerance = 1e-6});
    }
  }
  return out;
}

}  // namespace troupe::tests
