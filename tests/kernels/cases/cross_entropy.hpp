// Cases of cross-entropy and of the masked mean of losses: see op_case.hpp.
//
// Losses are float: their finite differences are in cross_entropy_reference_test.cpp, of values
// that a float holds.

#pragma once

#include "tests/kernels/op_case.hpp"

#include <array>

namespace troupe::tests {

struct cross_entropy_extents {
  std::int64_t R, V, vocabulary;
  std::int32_t first = 0;
  bool with_logit = false;

  /// A loss near zero is the difference of two numbers of this size.
  static constexpr double logits = 8;

  const std::int32_t* targets(arrays& a) const {
    // Of a part of the vocabulary some targets are of others.
    return a.in<std::int32_t>("target", whole_numbers(R, vocabulary + 2 * first));
  }

  op_maker forward() const {
    return makes([s = *this](auto t, arrays& a) {
      using T = decltype(t);
      const double units = roundings_in_lanes(s.vocabulary);
      const kernels::cross_entropy_forward<T> op{
          .loss = a.out<float>("loss", s.R, units, logits),
          .lse = a.out<float>("lse", s.R, units, logits),
          .logits = a.in<T>("logits", normal_numbers(s.R * s.V)),
          .target = s.targets(a),
          .R = s.R,
          .V = s.V,
          .vocabulary = s.vocabulary,
          .first = s.first,
          .target_logit = s.with_logit ? a.out<float>("target_logit", s.R, 1) : nullptr};
      a.counts("logits", s.R * s.vocabulary);
      if (s.with_logit)
        a.counts("target_logit", 0);
      return op;
    });
  }
  op_maker backward() const {
    return makes([s = *this](auto t, arrays& a) {
      using T = decltype(t);
      const kernels::cross_entropy_backward<T> op{
          .dlogits = a.out<T>("dlogits", s.R * s.V, roundings_in_lanes(s.vocabulary)),
          .logits = a.in<T>("logits", normal_numbers(s.R * s.V)),
          .lse = a.in<float>("lse", normal_numbers(s.R)),
          .target = s.targets(a),
          .dloss = a.in<float>("dloss", zeros_and_ones(s.R)),
          .R = s.R,
          .V = s.V,
          .vocabulary = s.vocabulary,
          .first = s.first};
      a.counts("logits", s.R * s.vocabulary);
      return op;
    });
  }
};

inline op_family cross_entropy_family() {
  op_family out{.name = "cross_entropy"};
  const auto add = [&out](const cross_entropy_extents& s) {
    const std::string shape
        = shape_text({{"R", s.R}, {"V", s.V}, {"vocabulary", s.vocabulary}, {"first", s.first}});
    const bool large = s.R * s.V > 40000;
    out.cases.push_back({.shape = shape, .op = s.forward(), .large = large});
    out.cases.push_back({.shape = shape,
                         .op = s.backward(),
                         .before = s.forward(),
                         .in_place = {{"dlogits", "logits"}},
                         .large = large});
  };
  // One word; a character model; padding inside a vector; rows of blocks; more than a chunk, with
  // rests; GPT-2's, padded; several threads; parts of a vocabulary.
  for (const auto& [R, V, vocabulary, first] : {std::array<std::int64_t, 4>{0, 5, 5, 0},
                                                {1, 1, 1, 0},
                                                {5, 65, 65, 0},
                                                {7, 80, 67, 0},
                                                {3, 136, 129, 0},
                                                {3, 4099, 4099, 0},
                                                {2, 8200, 8191, 0},
                                                {311, 131, 127, 0},
                                                {2, 50304, 50257, 0},
                                                {9, 64, 61, 32},
                                                {9, 67, 67, 100}})
    add({R, V, vocabulary, std::int32_t(first), first != 0});
  for (const auto& [parts, R] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                                 {2, 61},
                                 {5, 1031},
                                 {8, 0},
                                 {130, 7},
                                 {3, 40009}})
    out.cases.push_back(
        {.shape = shape_text({{"parts", parts}, {"R", R}}),
         .op = makes([parts = parts, R = R](auto t, arrays& a) {
           using T = decltype(t);
           std::vector<const T*> lse, logit;
           for (std::int64_t k = 0; k < parts; ++k) {
             lse.push_back(a.in<T>("lse" + std::to_string(k), normal_numbers(R)));
             logit.push_back(a.in<T>("logit" + std::to_string(k), normal_numbers(R)));
           }
           const double size = cross_entropy_extents::logits + double(parts);
           return kernels::cross_entropy_merge<T>{.loss = a.out<T>("loss", R, 2, size),
                                                  .lse = a.out<T>("lse", R, 2, size),
                                                  .part_lse = a.on_host(lse),
                                                  .part_logit = a.on_host(logit),
                                                  .parts = parts,
                                                  .R = R};
         }),
         .large = R > 10000});
  return out;
}

inline op_family masked_loss_family() {
  op_family out{.name = "masked_loss"};
  for (const std::int64_t R : {0, 1, 2, 61, 1024, 1025, 5003, 70001}) {
    const auto forward = makes([R](auto t, arrays& a) {
      using T = decltype(t);
      const kernels::masked_loss_forward<T> op{
          // Sums in double: nothing of float's roundings.
          .total = a.out<double>("total", 1, 0x1p-29 * roundings_of_sum(R), double(R)),
          .tokens = a.out<double>("tokens", 1, 0),
          .loss = a.in<float>("loss", normal_numbers(R)),
          .mask = a.in<T>("mask", zeros_and_ones(R)),
          .R = R};
      a.counts("total", 0);
      a.counts("tokens", 0);
      return op;
    });
    const auto backward = makes([R](auto t, arrays& a) {
      using T = decltype(t);
      const kernels::masked_loss_backward<T> op{
          .dloss = a.out<float>("dloss", R, 1),
          .mask = a.in<T>("mask", zeros_and_ones(R)),
          .tokens = a.in<double>("tokens", listed(std::vector<double>{1})),
          .scale = 0.75,
          .R = R};
      a.counts("tokens", 0);
      return op;
    });
    const std::string shape = shape_text({{"R", R}});
    out.cases.push_back({.shape = shape, .op = forward});
    out.cases.push_back({.shape = shape, .op = backward, .before = forward});
  }
  return out;
}

}  // namespace troupe::tests
