// Cases of linear layers and bias gradients (op_case.hpp).
//
// products_test.cpp tests every tail of a shape and every instruction set.

#pragma once

#include "tests/kernels/cases/activation.hpp"

#include <array>

namespace troupe::tests {

struct linear_extents {
  std::int64_t R, N, K;
  kernels::epilogue activation = kernels::epilogue::none, made_x = kernels::epilogue::none;
  bool with_bias = true, with_z = true, row_invariant = false;

  /// Error of rounding a sum to its type before the activation or its slope.
  template <class T>
  static constexpr double rounded_between(kernels::epilogue e) {
    if (e == kernels::epilogue::none || sizeof(T) >= 4)
      return 0;
    return std::is_same_v<T, kernels::bf16> ? 0x1p16 : 0x1p13;
  }

  op_maker forward(const char* y = "y") const {
    return makes([s = *this, y](auto t, arrays& a) {
      using T = decltype(t);
      const double units = roundings_of_sum(s.K + 1);
      // The relative error of a square is twice that of its argument.
      const double of_y = 2 * units + 2 * rounded_between<T>(s.activation);
      const kernels::linear_forward<T> op{
          .y = a.out<T>(y, s.R * s.N, of_y),
          .z = s.with_z ? a.out<T>("z", s.R * s.N, units) : nullptr,
          .x = a.in<T>("x", normal_numbers(s.R * s.K)),
          .weight = a.in<T>("weight", normal_numbers(s.N * s.K)),
          .bias = s.with_bias ? a.in<T>("bias", normal_numbers(s.N)) : nullptr,
          .R = s.R,
          .N = s.N,
          .K = s.K,
          .activation = s.activation,
          .row_invariant = s.row_invariant};
      a.multiplied(y, s.K);
      if (s.with_z)
        a.multiplied("z", s.K);
      return op;
    });
  }
  op_maker backward_input(const char* dx = "dx") const {
    return makes([s = *this, dx](auto t, arrays& a) {
      using T = decltype(t);
      const bool through = s.made_x != kernels::epilogue::none;
      const kernels::linear_backward_input<T> op{
          .dx = a.out<T>(dx, s.R * s.K, roundings_of_sum(s.N) + rounded_between<T>(s.made_x)),
          .dz = a.in<T>("dz", normal_numbers(s.R * s.N)),
          .weight = a.in<T>("weight", normal_numbers(s.N * s.K)),
          .R = s.R,
          .N = s.N,
          .K = s.K,
          .activation = s.made_x,
          .z = through ? a.in<T>("z_of_x", normal_numbers(s.R * s.K)) : nullptr};
      a.multiplied(dx, s.N, s.made_x == kernels::epilogue::gelu_tanh);
      return op;
    });
  }
  op_maker backward_weight(bool accumulates = true) const {
    return makes([s = *this, accumulates](auto t, arrays& a) {
      using T = decltype(t);
      using sum = kernels::accumulator<T>;
      const double units = roundings_of_sum(s.R + 1);
      const kernels::linear_backward_weight<T> op{
          .dweight = total_of<sum>(a, "dweight", s.N * s.K, accumulates, units),
          .dbias = s.with_bias ? total_of<sum>(a, "dbias", s.N, accumulates, units) : nullptr,
          .dz = a.in<T>("dz", normal_numbers(s.R * s.N)),
          .x = a.in<T>("x", normal_numbers(s.R * s.K)),
          .R = s.R,
          .N = s.N,
          .K = s.K,
          .accumulates = accumulates,
          .bias_accumulates = accumulates};
      a.multiplied("dweight", s.R);
      return op;
    });
  }
  op_maker backward_bias(bool accumulates = true) const {
    return makes([s = *this, accumulates](auto t, arrays& a) {
      using T = decltype(t);
      using sum = kernels::accumulator<T>;
      return kernels::bias_backward<T>{
          .dbias = total_of<sum>(a, "dbias", s.N, accumulates, roundings_of_sum(s.R + 1)),
          .dz = a.in<T>("dz", normal_numbers(s.R * s.N)),
          .R = s.R,
          .N = s.N,
          .accumulates = accumulates};
    });
  }
};

inline op_family linear_family() {
  using kernels::epilogue;
  op_family out{.name = "linear"};
  const auto add = [&out](const linear_extents& s, const std::string& with) {
    const std::string shape = shape_text({{"R", s.R}, {"N", s.N}, {"K", s.K}}) + with;
    // Bits depend on the team size, which decides how a product is divided.
    for (const auto& op : {s.forward(), s.backward_input(), s.backward_weight()})
      out.cases.push_back({.shape = shape, .op = op, .same_bits_by_threads = false});
    out.cases.push_back({.shape = shape + " written",
                         .op = s.backward_weight(false),
                         .same_bits_by_threads = false});
  };
  // No rows; one element; tails in every dimension; long sums in each direction; vectors and packs;
  // each number of rows that counts as few.
  for (const auto& [R, N, K] : {std::array<std::int64_t, 3>{0, 5, 3},
                                {1, 1, 1},
                                {1, 97, 64},
                                {31, 1, 7},
                                {17, 65, 1},
                                {61, 13, 27},
                                {16, 64, 32},
                                {523, 67, 19},
                                {2, 13, 100},
                                {3, 6, 40},
                                {4, 31, 17},
                                {6, 5, 33},
                                {7, 9, 64},
                                {8, 66, 24},
                                {5, 19, 1543}})
    add({R, N, K}, "");
  add({61, 67, 127, epilogue::none, epilogue::none, false, false}, " without bias");
  // Blocks of rows, and of columns whose weights fit a cache; at the end a part of each.
  for (const auto e : {epilogue::none, epilogue::gelu_tanh}) {
    linear_extents s{.R = 21, .N = 75, .K = 4100, .activation = e};
    s.row_invariant = true;
    out.cases.push_back({.shape = shape_text({{"R", s.R}, {"N", s.N}, {"K", s.K}}) + " invariant"
                                  + (e == epilogue::none ? "" : " gelu_tanh"),
                         .op = s.forward(),
                         .large = true});
  }
  for (const epilogue e : kernels::every_epilogue) {
    const std::string name = e == epilogue::none ? "" : " " + std::string(text(activation_of(e)));
    for (const bool with_z : {false, true}) {
      add({37, 71, 29, e, e, true, with_z}, name);
      add({16, 72, 64, e, e, false, with_z}, name);
    }
    // Rows of 8 elements, of 4, of neither: vendor libraries support different epilogues for each.
    for (const std::int64_t n : {40, 20, 7}) {
      const std::string shape = shape_text({{"R", 13}, {"of rows of", n}}) + name;
      for (const bool with_bias : {false, true})
        for (const bool with_z : {false, true})
          out.cases.push_back({.shape = shape,
                               .op = linear_extents{13, n, 40, e, e, with_bias, with_z}.forward(),
                               .same_bits_by_threads = false});
      out.cases.push_back({.shape = shape,
                           .op = linear_extents{13, 24, n, e, e}.backward_input(),
                           .same_bits_by_threads = false});
    }
  }
  for (const bool with_bias : {false, true}) {
    const linear_extents s{.R = 5, .N = 7, .K = 3, .with_bias = with_bias, .with_z = false};
    out.gradients.push_back({.shape = with_bias ? "with bias" : "",
                             .forward = {s.forward("z")},
                             .backward = {s.backward_input(), s.backward_weight()}});
  }
  for (const epilogue e : kernels::every_epilogue) {
    if (e == epilogue::none)
      continue;
    const auto kind = kernels::activation_of(e);
    const std::string name(text(kind));
    const linear_extents forth{.R = 3, .N = 5, .K = 4, .activation = e};
    out.gradients.push_back(
        {.shape = "and " + name + " of the z that is kept",
         .forward = {forth.forward()},
         .backward = {activation_extents{.kind = kind, .R = 3, .N = 5}.backward("dz", "dy", "z"),
                      forth.backward_input(),
                      forth.backward_weight()}});
    const linear_extents back{.R = 3, .N = 5, .K = 4, .made_x = e, .with_z = false};
    out.gradients.push_back(
        {.shape = "of what " + name + " made",
         .forward = {activation_extents{.kind = kind, .R = 3, .N = 4}.forward("x", "z_of_x"),
                     back.forward("z")},
         .backward = {back.backward_input("dz_of_x"), back.backward_weight()}});
  }
  return out;
}

inline op_family bias_family() {
  op_family out{.name = "bias"};
  // No rows; one element; primes; whole blocks of rows, and one more.
  for (const auto& [R, N] : {std::pair<std::int64_t, std::int64_t>{0, 5},
                             {1, 1},
                             {3, 7},
                             {64, 8},
                             {65, 136},
                             {331, 264},
                             {2053, 40}})
    for (const bool accumulates : {true, false})
      out.cases.push_back(
          {.shape = shape_text({{"R", R}, {"N", N}}) + (accumulates ? "" : " written"),
           .op = linear_extents{.R = R, .N = N, .K = 0}.backward_bias(accumulates),
           .large = R * N > 90000});
  const linear_extents small{.R = 3, .N = 4, .K = 5, .with_z = false};
  out.gradients.push_back(
      {.shape = "", .forward = {small.forward("z")}, .backward = {small.backward_bias()}});
  return out;
}

}  // namespace troupe::tests
