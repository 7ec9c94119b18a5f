// Cases of one-moment updates and of scaled sums (op_case.hpp).

#pragma once

#include "tests/kernels/op_case.hpp"

namespace troupe::tests {

inline op_family momentum_family() {
  using kernels::momentum_rule;
  using kernels::narrow_type;
  op_family out{.name = "momentum"};
  const auto add = [&out](std::int64_t n, int rounds, momentum_rule rule) {
    const bool lion = rule == momentum_rule::lion;
    const auto to = rounds == 2 ? narrow_type::f16 : narrow_type::bf16;
    out.cases.push_back(
        {.shape = shape_text({{"n", n}, {"rounded", rounds}}) + (lion ? " lion" : " sgd"),
         .op = makes([=](auto t, arrays& a) {
           using T = decltype(t);
           void* rounded = nullptr;
           if (rounds == 1)
             rounded = a.out<kernels::bf16>("rounded", n, 0x1p17);
           else if (rounds == 2)
             rounded = a.out<kernels::f16>("rounded", n, 0x1p14);
           return kernels::momentum_step<T>{.x = a.changed<T>("x", normal_numbers(n), 6),
                                            .m = a.changed<T>("m", normal_numbers(n), 6),
                                            .dx = a.in<T>("dx", normal_numbers(n)),
                                            .n = n,
                                            .rule = rule,
                                            .gradient_scale = 0.5F,
                                            .rate = 0.25F,
                                            .beta1 = lion ? 0.95F : 0.9F,
                                            .beta2 = lion ? 0.98F : 0.0F,
                                            .weight_decay = 0.1F,
                                            .rounded = rounded,
                                            .rounded_to = to};
         }),
         .large = n > 90000});
  };
  for (const std::int64_t n : {0, 1, 7, 61, 2048, 2049, 100003})
    for (const int rounds : {0, 1, 2})
      for (const auto rule : {momentum_rule::sgd, momentum_rule::lion})
        add(n, rounds, rule);
  // A sum of one or two arrays, with and without division by a norm.
  for (const std::int64_t n : {0, 1, 7, 61, 2049, 100003})
    for (const std::int64_t count : {0, 1, 3})
      for (const bool two : {false, true})
        out.cases.push_back(
            {.shape = shape_text({{"n", n}, {"count", count}}) + (two ? " and z" : ""),
             .op = makes([=](auto t, arrays& a) {
               using T = decltype(t);
               return kernels::scaled_sum<T>{
                   .y = a.out<T>("y", n, 3),
                   .x = a.in<T>("x", normal_numbers(n)),
                   .z = two ? a.in<T>("z", normal_numbers(n)) : nullptr,
                   .n = n,
                   .a = 3.4445F,
                   .b = -4.775F,
                   .squares
                   = count > 0 ? a.in<double>("squares", positive_numbers(count)) : nullptr,
                   .count = count,
                   .eps = 1e-7F};
             }),
             .in_place = {{"y", "x"}},
             .large = n > 90000});
  return out;
}

}  // namespace troupe::tests
