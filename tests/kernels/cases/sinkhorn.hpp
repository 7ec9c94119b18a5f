// Cases of sinkhorn (op_case.hpp).

#pragma once

#include "tests/kernels/op_case.hpp"

namespace troupe::tests {

inline op_family sinkhorn_family() {
  op_family out{.name = "sinkhorn"};
  for (const auto& [R, E] :
       {std::pair<std::int64_t, std::int64_t>{0, 4}, {1, 1}, {7, 3}, {64, 8}, {129, 33}, {400, 61}})
    out.cases.push_back({.shape = shape_text({{"R", R}, {"E", E}}),
                         .op = makes([R = R, E = E](auto t, arrays& a) {
                           using T = decltype(t);
                           return kernels::sinkhorn<T>{
                               .bias = a.out<T>("bias", E, 4, 4),
                               .logits = a.in<T>("logits", normal_numbers(R * E)),
                               .R = R,
                               .E = E};
                         }),
                         .large = R == 400});
  return out;
}

}  // namespace troupe::tests
