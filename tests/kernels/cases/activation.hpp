// Cases of activations (op_case.hpp).

#pragma once

#include "tests/kernels/op_case.hpp"

namespace troupe::tests {

/// A few operations after an exponential with an error of two roundings.
inline constexpr double activation_roundings = 8;

inline op_maker activation_forward(kernels::activation kind,
                                   std::int64_t R,
                                   std::int64_t N,
                                   const char* y = "y",
                                   const char* x = "x") {
  return makes([=](auto t, arrays& a) {
    using T = decltype(t);
    return kernels::activation_forward<T>{
        .y = a.out<T>(y, R * N, activation_roundings),
        .x = a.in<T>(x, normal_numbers(R * N * kernels::fan_in(kind))),
        .R = R,
        .N = N,
        .kind = kind};
  });
}

inline op_maker activation_backward(kernels::activation kind,
                                    std::int64_t R,
                                    std::int64_t N,
                                    const char* dx = "dx",
                                    const char* dy = "dy",
                                    const char* x = "x") {
  return makes([=](auto t, arrays& a) {
    using T = decltype(t);
    return kernels::activation_backward<T>{
        .dx = a.out<T>(dx, R * N * kernels::fan_in(kind), activation_roundings),
        .dy = a.in<T>(dy, normal_numbers(R * N)),
        .x = a.in<T>(x, normal_numbers(R * N * kernels::fan_in(kind))),
        .R = R,
        .N = N,
        .kind = kind};
  });
}

inline op_maker weighted_activation_forward(kernels::activation kind,
                                            std::int64_t R,
                                            std::int64_t N) {
  return makes([=](auto t, arrays& a) {
    using T = decltype(t);
    return kernels::weighted_activation_forward<T>{
        .y = a.out<T>("y", R * N, activation_roundings + 1),
        .x = a.in<T>("x", normal_numbers(R * N * kernels::fan_in(kind))),
        .weight = a.in<kernels::accumulator<T>>("weight", normal_numbers(R)),
        .R = R,
        .N = N,
        .kind = kind};
  });
}

inline op_maker weighted_activation_backward(kernels::activation kind,
                                             std::int64_t R,
                                             std::int64_t N) {
  return makes([=](auto t, arrays& a) {
    using T = decltype(t);
    return kernels::weighted_activation_backward<T>{
        .dx = a.out<T>("dx", R * N * kernels::fan_in(kind), activation_roundings + 1),
        // Terms of both signs, of about 1.
        .dweight = a.out<kernels::accumulator<T>>(
            "dweight", R, activation_roundings + roundings_of_sum(N), std::sqrt(double(N))),
        .dy = a.in<T>("dy", normal_numbers(R * N)),
        .x = a.in<T>("x", normal_numbers(R * N * kernels::fan_in(kind))),
        .weight = a.in<kernels::accumulator<T>>("weight", normal_numbers(R)),
        .R = R,
        .N = N,
        .kind = kind};
  });
}

inline op_family activation_family() {
  using kernels::activation;
  op_family out{.name = "activation"};
  for (const activation kind : kernels::every_activation) {
    const std::string name = std::string(text(kind)) + " ";
    const bool narrow = kernels::fan_in(kind) == 1;
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
      const std::string shape = name + shape_text({{"R", R}, {"N", N}});
      const bool large = R * N > 32768;
      out.cases.push_back({.shape = shape,
                           .op = activation_forward(kind, R, N),
                           .same_bits_by_address = true,
                           .large = large});
      out.cases.push_back({.shape = shape,
                           .op = activation_backward(kind, R, N),
                           .in_place = {{"dx", "x"}},
                           .same_bits_by_address = true,
                           .large = large});
      if (narrow) {
        out.cases[out.cases.size() - 2].in_place = {{"y", "x"}};
        out.cases.back().in_place.push_back({"dx", "dy"});
      }
      out.cases.push_back({.shape = shape,
                           .op = weighted_activation_forward(kind, R, N),
                           .same_bits_by_address = true,
                           .large = large});
      out.cases.push_back({.shape = shape,
                           .op = weighted_activation_backward(kind, R, N),
                           .in_place = {{"dx", "x"}},
                           .large = large});
    }
    out.gradients.push_back({.shape = name,
                             .forward = {activation_forward(kind, 3, 5)},
                             .backward = {activation_backward(kind, 3, 5)}});
    out.gradients.push_back({.shape = name + "with weights",
                             .forward = {weighted_activation_forward(kind, 3, 5)},
                             .backward = {weighted_activation_backward(kind, 3, 5)}});
  }
  return out;
}

}  // namespace troupe::tests
