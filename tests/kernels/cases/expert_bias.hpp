// Cases of the bias that balances experts (op_case.hpp).

#pragma once

#include "tests/kernels/op_case.hpp"

namespace troupe::tests {

inline op_family expert_bias_family() {
  op_family out{.name = "expert_bias"};
  // Few different counts: some equal the mean.
  for (const std::int64_t E : {0, 1, 7, 64, 257, 1000})
    for (const std::int64_t below : {2, 3, 1 << 24})
      out.cases.push_back({.shape = shape_text({{"E", E}, {"below", below}}),
                           .op = makes([=](auto t, arrays& a) {
                             using T = decltype(t);
                             return kernels::expert_bias_step<T>{
                                 .bias = a.changed<T>("bias", normal_numbers(E), 1),
                                 .counts = a.in<T>("counts", whole_numbers(E, below)),
                                 .E = E,
                                 .rate = 0.25F};
                           }),
                           .bits_of_reference = true,
                           .same_bits_by_address = true});
  return out;
}

}  // namespace troupe::tests
