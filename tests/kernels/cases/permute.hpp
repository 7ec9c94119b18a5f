// Cases of rows that go to slots and back (op_case.hpp).

#pragma once

#include "tests/kernels/op_case.hpp"

#include <algorithm>
#include <array>

namespace troupe::tests {

/// Every fifth slot is dropped; the others are in a mixed order, with rows of padding between them.
struct permute_extents {
  std::int64_t R, C, slots, padding;
  bool with_weights = false;

  std::vector<std::int32_t> places() const {
    std::vector<std::int32_t> out(std::size_t(padding), -1);
    for (std::int64_t i = 0; i < R * slots; ++i)
      if (i % 5 != 4)
        out.push_back(std::int32_t(i));
    std::mt19937 rng{7};
    std::shuffle(out.begin(), out.end(), rng);
    return out;
  }
  std::int64_t S() const { return std::int64_t(places().size()); }

  const std::int32_t* place(arrays& a) const {
    return a.in<std::int32_t>("place", listed(places()));
  }
  const std::int32_t* slot(arrays& a) const {
    std::vector<std::int32_t> out(std::size_t(R * slots), -1);
    const auto from = places();
    for (std::size_t s = 0; s < from.size(); ++s)
      if (from[s] >= 0)
        out[std::size_t(from[s])] = std::int32_t(s);
    return a.in<std::int32_t>("slot", listed(out));
  }
  template <class T>
  const kernels::accumulator<T>* weight(arrays& a, std::int64_t read) const {
    if (!with_weights)
      return nullptr;
    const auto* const out = a.in<kernels::accumulator<T>>("weight", normal_numbers(R * slots));
    a.counts("weight", read);
    return out;
  }

  op_maker permute(const char* y = "y", const char* x = "x") const {
    return makes([s = *this, y, x](auto t, arrays& a) {
      using T = decltype(t);
      const kernels::permute<T> op{.y = a.out<T>(y, s.S() * s.C, 1),
                                   .x = a.in<T>(x, normal_numbers(s.R * s.C)),
                                   .place = s.place(a),
                                   .weight = s.weight<T>(a, s.S()),
                                   .S = s.S(),
                                   .C = s.C,
                                   .slots = s.slots};
      a.counts(x, s.S() * s.C);
      return op;
    });
  }
  op_maker unpermute(const char* y = "y", const char* x = "x") const {
    return makes([s = *this, y, x](auto t, arrays& a) {
      using T = decltype(t);
      const kernels::unpermute<T> op{.y = a.out<T>(y, s.R * s.C, roundings_of_sum(s.slots)),
                                     .x = a.in<T>(x, normal_numbers(s.S() * s.C)),
                                     .slot = s.slot(a),
                                     .weight = s.weight<T>(a, s.R * s.slots),
                                     .R = s.R,
                                     .C = s.C,
                                     .slots = s.slots};
      a.counts(x, s.R * s.slots * s.C);
      return op;
    });
  }
  op_maker backward_weight() const {
    return makes([s = *this](auto t, arrays& a) {
      using T = decltype(t);
      const kernels::unpermute_backward_weight<T> op{
          .dweight = a.out<kernels::accumulator<T>>(
              "dweight", s.R * s.slots, roundings_of_sum(s.C), std::sqrt(double(s.C))),
          .dy = a.in<T>("dy", normal_numbers(s.R * s.C)),
          .x = a.in<T>("x", normal_numbers(s.S() * s.C)),
          .slot = s.slot(a),
          .R = s.R,
          .C = s.C,
          .slots = s.slots};
      a.counts("x", s.R * s.slots * s.C);
      return op;
    });
  }
};

inline op_family permute_family() {
  op_family out{.name = "permute"};
  // A vector plus one; only padding; nothing; primes; one element; long rows; whole packs; several
  // threads. The first one has rows, because the quick test on devices always takes it.
  for (const auto& [R, C, slots, padding] : {std::array<std::int64_t, 4>{5, 61, 3, 0},
                                             {0, 8, 2, 3},
                                             {0, 5, 2, 0},
                                             {7, 5, 1, 2},
                                             {1, 1, 1, 0},
                                             {3, 1040, 2, 1},
                                             {61, 24, 8, 4},
                                             {67, 136, 2, 0},
                                             {301, 133, 4, 7}}) {
    const std::string shape
        = shape_text({{"R", R}, {"C", C}, {"slots", slots}, {"padding", padding}});
    const bool large = R * C * slots > 100000;
    for (const bool with_weights : {false, true}) {
      const permute_extents s{R, C, slots, padding, with_weights};
      const std::string with = with_weights ? " with weights" : "";
      out.cases.push_back({.shape = shape + with, .op = s.permute(), .large = large});
      out.cases.push_back({.shape = shape + with, .op = s.unpermute(), .large = large});
    }
    out.cases.push_back({.shape = shape,
                         .op = permute_extents{R, C, slots, padding}.backward_weight(),
                         .large = large});
  }
  for (const bool with_weights : {false, true}) {
    const permute_extents s{4, 3, 2, 1, with_weights};
    const std::string with = with_weights ? "with weights" : "";
    out.gradients.push_back(
        {.shape = with, .forward = {s.permute()}, .backward = {s.unpermute("dx", "dy")}});
    out.gradients.push_back(
        {.shape = with, .forward = {s.unpermute()}, .backward = {s.permute("dx", "dy")}});
    if (with_weights)
      out.gradients.back().backward.push_back(s.backward_weight());
  }
  return out;
}

}  // namespace troupe::tests
