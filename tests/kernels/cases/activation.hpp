// Cases of activations (op_case.hpp).

#pragma once

#include "tests/kernels/op_case.hpp"

namespace troupe::tests {

/// A few operations after an exponential with an error of two roundings.
inline constexpr double activation_roundings = 8;

struct activation_extents {
  kernels::activation kind;
  bool gated = false, weighted = false;
  std::int64_t R, N;

  std::int64_t width() const { return R * N * kernels::fan_in(gated); }
  double roundings() const { return activation_roundings + (weighted ? 1 : 0); }

  op_maker forward(const char* y = "y", const char* x = "x") const {
    return makes([s = *this, y, x](auto t, arrays& a) {
      using T = decltype(t);
      using sum = kernels::accumulator<T>;
      return kernels::activation_forward<T>{
          .y = a.out<T>(y, s.R * s.N, s.roundings()),
          .x = a.in<T>(x, normal_numbers(s.width())),
          .R = s.R,
          .N = s.N,
          .kind = s.kind,
          .gated = s.gated,
          .weight = s.weighted ? a.in<sum>("weight", normal_numbers(s.R)) : nullptr};
    });
  }
  op_maker backward(const char* dx = "dx", const char* dy = "dy", const char* x = "x") const {
    return makes([s = *this, dx, dy, x](auto t, arrays& a) {
      using T = decltype(t);
      using sum = kernels::accumulator<T>;
      // The terms of a weight's gradient have both signs and are about 1.
      const double units = activation_roundings + roundings_of_sum(s.N);
      return kernels::activation_backward<T>{
          .dx = a.out<T>(dx, s.width(), s.roundings()),
          .dy = a.in<T>(dy, normal_numbers(s.R * s.N)),
          .x = a.in<T>(x, normal_numbers(s.width())),
          .R = s.R,
          .N = s.N,
          .kind = s.kind,
          .gated = s.gated,
          .weight = s.weighted ? a.in<sum>("weight", normal_numbers(s.R)) : nullptr,
          .dweight
          = s.weighted ? a.out<sum>("dweight", s.R, units, std::sqrt(double(s.N))) : nullptr};
    });
  }
};

/// All activations, gated or not, with and without weights.
inline std::vector<activation_extents> every_activation_form() {
  std::vector<activation_extents> out;
  for (const auto kind : kernels::every_activation)
    for (const bool gated : {false, true})
      for (const bool weighted : {false, true})
        out.push_back({.kind = kind, .gated = gated, .weighted = weighted});
  return out;
}

inline op_family activation_family() {
  op_family out{.name = "activation"};
  for (auto form : every_activation_form()) {
    const std::string name = std::string(text(form.kind)) + (form.gated ? " gated" : "")
                             + (form.weighted ? " with weights " : " ");
    // Empty; one element; primes; a vector or a pack plus one; whole packs per row; more than a
    // block; enough for several threads.
    for (const auto& [R, N] : {std::pair<std::int64_t, std::int64_t>{0, 5},
                               {1, 1},
                               {3, 7},
                               {5, 61},
                               {1, 257},
                               {17, 64},
                               {3, 1040},
                               {67, 130},
                               {61, 1031}}) {
      form.R = R;
      form.N = N;
      const std::string shape = name + shape_text({{"R", R}, {"N", N}});
      const bool large = R * N > 32768;
      out.cases.push_back(
          {.shape = shape, .op = form.forward(), .same_bits_by_address = true, .large = large});
      out.cases.push_back({.shape = shape,
                           .op = form.backward(),
                           .in_place = {{"dx", "x"}},
                           .same_bits_by_address = !form.weighted,
                           .large = large});
      if (!form.gated) {
        out.cases[out.cases.size() - 2].in_place = {{"y", "x"}};
        out.cases.back().in_place.push_back({"dx", "dy"});
      }
    }
    form.R = 3;
    form.N = 5;
    out.gradients.push_back(
        {.shape = name, .forward = {form.forward()}, .backward = {form.backward()}});
  }
  return out;
}

}  // namespace troupe::tests
