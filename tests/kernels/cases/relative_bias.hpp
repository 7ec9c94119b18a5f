// Cases of biases from a table of buckets (op_case.hpp).

#pragma once

#include "tests/kernels/op_case.hpp"

#include <array>

namespace troupe::tests {

struct relative_bias_extents {
  std::int64_t H, count, buckets;
  bool accumulates = true;

  op_maker forward() const {
    return makes([s = *this](auto t, arrays& a) {
      using T = decltype(t);
      return kernels::relative_bias_forward<T>{
          .bias = a.out<kernels::accumulator<T>>("bias", s.H * s.count, 0),
          .table = a.in<T>("table", normal_numbers(s.buckets * s.H)),
          .bucket = a.in<std::int32_t>("bucket", whole_numbers(s.count, s.buckets)),
          .H = s.H,
          .count = s.count,
          .buckets = s.buckets};
    });
  }
  op_maker backward() const {
    return makes([s = *this](auto t, arrays& a) {
      using T = decltype(t);
      using sum = kernels::accumulator<T>;
      return kernels::relative_bias_backward<T>{
          .dtable
          = total_of<sum>(a, "dtable", s.buckets * s.H, s.accumulates, roundings_of_sum(s.count)),
          .dbias = a.in<sum>("dbias", normal_numbers(s.H * s.count)),
          .bucket = a.in<std::int32_t>("bucket", whole_numbers(s.count, s.buckets)),
          .H = s.H,
          .count = s.count,
          .buckets = s.buckets,
          .accumulates = s.accumulates};
    });
  }
};

inline op_family relative_bias_family() {
  op_family out{.name = "relative_bias"};
  // One distance; fewer distances than buckets; several threads and blocks.
  for (const auto& [H, count, buckets] :
       {std::array<std::int64_t, 3>{1, 1, 1}, {3, 5, 8}, {2, 37, 6}, {12, 511, 32}, {5, 1100, 32}})
    for (const bool accumulates : {true, false}) {
      const relative_bias_extents s{H, count, buckets, accumulates};
      const std::string shape = shape_text({{"H", H}, {"count", count}, {"buckets", buckets}})
                                + (accumulates ? "" : " written");
      if (accumulates)
        out.cases.push_back({.shape = shape, .op = s.forward(), .same_bits_by_address = true});
      out.cases.push_back({.shape = shape, .op = s.backward(), .same_bits_by_address = true});
    }
  out.gradients.push_back({.shape = "table",
                           .forward = {relative_bias_extents{3, 11, 4}.forward()},
                           .backward = {relative_bias_extents{3, 11, 4, false}.backward()}});
  return out;
}

}  // namespace troupe::tests
