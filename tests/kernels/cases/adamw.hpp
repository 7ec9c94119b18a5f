// Cases of AdamW (op_case.hpp). adamw_cpu_test.cpp checks the rounded parameters and the
// fingerprints.

#pragma once

#include "tests/kernels/op_case.hpp"

namespace troupe::tests {

/// Step 3 of a run, with nonzero moments.
struct adamw_arrays {
  static constexpr float rate = 1e-3F, beta1 = 0.9F, beta2 = 0.95F, eps = 1e-8F;
  static constexpr float correction1 = 0.271F, correction2 = 0.142625F;
  static constexpr double units = 6;  ///< a dozen operations; half of them round their results

  template <class T>
  static T* x(arrays& a, std::int64_t n, const std::string& number = "") {
    return a.changed<T>("x" + number, normal_numbers(n), units);
  }
  template <class T>
  static T* m(arrays& a, std::int64_t n, const std::string& number = "") {
    return a.changed<T>("m" + number, normal_numbers(n), units);
  }
  template <class T>
  static T* v(arrays& a, std::int64_t n, const std::string& number = "") {
    return a.changed<T>("v" + number, positive_numbers(n), units);
  }
  /// Results of an out-of-place update.
  template <class T>
  static T* written(arrays& a, std::int64_t n, const std::string& name) {
    return a.out<T>(name, n, units);
  }
  template <class T>
  static kernels::adamw_source<T> from(arrays& a, std::int64_t n, const std::string& number = "") {
    return {.x = a.in<T>("x_old" + number, normal_numbers(n)),
            .m = a.in<T>("m_old" + number, normal_numbers(n)),
            .v = a.in<T>("v_old" + number, positive_numbers(n))};
  }
  template <class T>
  static const T* dx(arrays& a, std::int64_t n, const std::string& number = "") {
    return a.in<T>("dx" + number, normal_numbers(n));
  }
  /// The reference rounds to the narrow type, too. Where a parameter is near the middle between two
  /// narrow numbers, the results differ by one unit of bf16 or f16.
  static void* rounded(arrays& a,
                       kernels::narrow_type to,
                       std::int64_t n,
                       const std::string& number = "") {
    if (to == kernels::narrow_type::bf16)
      return a.out<kernels::bf16>("rounded" + number, n, 0x1p17);
    return a.out<kernels::f16>("rounded" + number, n, 0x1p14);
  }
};

inline op_family adamw_family() {
  using kernels::narrow_type;
  op_family out{.name = "adamw"};
  const auto add = [&out](std::int64_t n, int rounds, float rate, float eps, std::string with) {
    const auto to = rounds == 2 ? narrow_type::f16 : narrow_type::bf16;
    out.cases.push_back({.shape = shape_text({{"n", n}, {"rounded", rounds}}) + with,
                         .op = makes([=](auto t, arrays& a) {
                           using T = decltype(t);
                           using of = adamw_arrays;
                           return kernels::adamw<T>{
                               .x = of::x<T>(a, n),
                               .m = of::m<T>(a, n),
                               .v = of::v<T>(a, n),
                               .dx = of::dx<T>(a, n),
                               .n = n,
                               .gradient_scale = 0.5F,
                               .rate = rate,
                               .beta1 = of::beta1,
                               .beta2 = of::beta2,
                               .eps = eps,
                               .weight_decay = 0.1F,
                               .correction1 = of::correction1,
                               .correction2 = of::correction2,
                               .rounded = rounds != 0 ? of::rounded(a, to, n) : nullptr,
                               .rounded_to = to};
                         }),
                         .large = n > 90000});
  };
  for (const std::int64_t n : {0, 1, 7, 61, 2048, 2049, 10007, 100003})
    for (const int rounds : {0, 1, 2})
      add(n, rounds, adamw_arrays::rate, adamw_arrays::eps, "");
  // Steps as large as the parameters, and an epsilon that matters next to the root.
  for (const std::int64_t n : {61, 2049})
    add(n, 0, 0.5F, 0.25F, " and large steps");
  for (const std::int64_t n : {0, 1, 61, 2049, 10007})
    out.cases.push_back({.shape = shape_text({{"n", n}}) + " beside",
                         .op = makes([=](auto t, arrays& a) {
                           using T = decltype(t);
                           using of = adamw_arrays;
                           return kernels::adamw<T>{.x = of::written<T>(a, n, "x"),
                                                    .m = of::written<T>(a, n, "m"),
                                                    .v = of::written<T>(a, n, "v"),
                                                    .dx = of::dx<T>(a, n),
                                                    .n = n,
                                                    .gradient_scale = 0.5F,
                                                    .rate = of::rate,
                                                    .beta1 = of::beta1,
                                                    .beta2 = of::beta2,
                                                    .eps = of::eps,
                                                    .weight_decay = 0.1F,
                                                    .correction1 = of::correction1,
                                                    .correction2 = of::correction2,
                                                    .rounded = of::rounded(a, narrow_type::bf16, n),
                                                    .from = of::from<T>(a, n)};
                         }),
                         .in_place = {{"x", "x_old"}, {"m", "m_old"}, {"v", "v_old"}}});
  const auto add_pieces = [&out](std::int64_t count, bool beside) {
    out.cases.push_back(
        {.shape = shape_text({{"count", count}}) + (beside ? ", some beside" : ""),
         .op = makes([=](auto t, arrays& a) {
           using T = decltype(t);
           using of = adamw_arrays;
           std::vector<typename kernels::adamw_pieces<T>::piece> pieces;
           for (std::int64_t i = 0; i < count; ++i) {
             const std::string number = std::to_string(i);
             const std::int64_t n = i == 4 ? 5003 : i * 37 % 301;
             const bool apart = beside && i % 4 != 1;
             pieces.push_back(
                 {.x = apart ? of::written<T>(a, n, "x" + number) : of::x<T>(a, n, number),
                  .m = apart ? of::written<T>(a, n, "m" + number) : of::m<T>(a, n, number),
                  .v = apart ? of::written<T>(a, n, "v" + number) : of::v<T>(a, n, number),
                  .dx = of::dx<T>(a, n, number),
                  .rounded = i % 3 != 0 ? of::rounded(a, narrow_type::bf16, n, number) : nullptr,
                  .n = n,
                  .weight_decay = i % 2 == 0 ? 0.1F : 0.0F,
                  .from = apart ? of::from<T>(a, n, number) : kernels::adamw_source<T>()});
           }
           return kernels::adamw_pieces<T>{.pieces = a.on_host(pieces),
                                           .count = count,
                                           .gradient_scale = 0.5F,
                                           .rate = of::rate,
                                           .beta1 = of::beta1,
                                           .beta2 = of::beta2,
                                           .eps = of::eps,
                                           .correction1 = of::correction1,
                                           .correction2 = of::correction2};
         })});
  };
  for (const std::int64_t count : {0, 1, 7, 70})
    add_pieces(count, false);
  for (const std::int64_t count : {1, 7, 70})
    add_pieces(count, true);
  return out;
}

}  // namespace troupe::tests
