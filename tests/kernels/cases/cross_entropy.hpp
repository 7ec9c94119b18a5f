// Cases of cross-entropy and of the masked mean loss (op_case.hpp).

#pragma once

#include "tests/kernels/op_case.hpp"

#include <array>

namespace troupe::tests {

struct cross_entropy_extents {
  enum class logits { normal, rising, one_high };

  std::int64_t R, V, vocabulary;
  std::int32_t first = 0;
  bool with_logit = false;
  logits drawn = logits::normal;

  /// A loss near zero is the difference of two numbers of this size.
  static constexpr double size = 8;

  draw numbers() const {
    if (drawn == logits::normal)
      return normal_numbers(R * V);
    std::vector<double> out;
    for (std::int64_t r = 0; r < R; ++r) {
      // At a different column in each row, from the first to the last.
      const std::int64_t highest = R > 1 ? r * (vocabulary - 1) / (R - 1) : 0;
      for (std::int64_t v = 0; v < V; ++v)
        out.push_back(drawn == logits::rising ? double(v) / 100 : v == highest ? 200 : 0);
    }
    return listed(out);
  }

  const std::int32_t* targets(arrays& a) const {
    // With a vocabulary shard, some targets are in other shards.
    return a.in<std::int32_t>("target", whole_numbers(R, vocabulary + 2 * first));
  }

  op_maker forward() const {
    return makes([s = *this](auto t, arrays& a) {
      using T = decltype(t);
      const double units = roundings_in_lanes(s.vocabulary);
      const kernels::cross_entropy_forward<T> op{
          .loss = a.out<float>("loss", s.R, units, size),
          .lse = a.out<float>("lse", s.R, units, size),
          .logits = a.in<T>("logits", s.numbers()),
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
          .logits = a.in<T>("logits", s.numbers()),
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
  /// Exists only for an unsharded vocabulary.
  op_maker both_passes() const {
    return makes([s = *this](auto t, arrays& a) {
      using T = decltype(t);
      const double units = roundings_in_lanes(s.vocabulary);
      // The relative error of a probability equals the absolute error of the float lse.
      const double size_of_lse = s.drawn == logits::normal ? size : 256;
      const kernels::cross_entropy_both_passes<T> op{
          .loss = a.out<float>("loss", s.R, units, size),
          .lse = a.out<float>("lse", s.R, units, size),
          .dlogits = a.out<T>("dlogits", s.R * s.V, units, size_of_lse),
          .logits = a.in<T>("logits", s.numbers()),
          .target = s.targets(a),
          .dloss = a.in<float>("dloss", zeros_and_ones(s.R)),
          .R = s.R,
          .V = s.V,
          .vocabulary = s.vocabulary};
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
    const bool large = s.R * s.V > 160000;
    out.cases.push_back({.shape = shape, .op = s.forward(), .large = large});
    out.cases.push_back({.shape = shape,
                         .op = s.backward(),
                         .before = s.forward(),
                         .in_place = {{"dlogits", "logits"}},
                         .large = large});
    if (s.first == 0)
      out.cases.push_back({.shape = shape,
                           .op = s.both_passes(),
                           .in_place = {{"dlogits", "logits"}},
                           .large = large});
  };
  // One word; a character model; padding inside a vector; rows in blocks; more than a chunk, with
  // tails; GPT-2's vocabulary, padded and unpadded, so rows begin at any element; several threads;
  // vocabulary shards, one of only padding.
  for (const auto& [R, V, vocabulary, first] : {std::array<std::int64_t, 4>{0, 5, 5, 0},
                                                {1, 1, 1, 0},
                                                {5, 65, 65, 0},
                                                {7, 80, 67, 0},
                                                {3, 136, 129, 0},
                                                {3, 4099, 4099, 0},
                                                {2, 8200, 8191, 0},
                                                {131, 131, 127, 0},
                                                {1301, 131, 127, 0},
                                                {2, 50304, 50257, 0},
                                                {3, 50257, 50257, 0},
                                                {9, 64, 61, 32},
                                                {9, 67, 67, 100},
                                                {9, 33, 0, 99}})
    add({R, V, vocabulary, std::int32_t(first), first != 0});
  // e^200 exceeds the float range: without subtracting the row maximum, the sum overflows. A GPU
  // row takes one warp, several, or several blocks.
  using extents = cross_entropy_extents;
  for (const std::int64_t V : {700, 3001, 9001})
    add({6, V, V, 0, false, extents::logits::one_high});
  // The sum is rescaled at every chunk.
  add({1, 20011, 20011, 0, false, extents::logits::rising});
  for (const std::int32_t first : {0, 5}) {
    const extents s{7, 13, 11, first};
    out.gradients.push_back({.shape = first == 0 ? "" : "of a part",
                             .forward = {s.forward()},
                             .backward = {s.backward()},
                             .tolerance = tolerance_of_floats,
                             .step = step_of_floats});
  }
  const cross_entropy_extents whole{7, 13, 11};
  out.gradients.push_back({.shape = "both passes in one",
                           .forward = {whole.forward()},
                           .backward = {whole.both_passes()},
                           .tolerance = tolerance_of_floats,
                           .step = step_of_floats});
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
           const double size = cross_entropy_extents::size + double(parts);
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

struct masked_loss_extents {
  std::int64_t R;
  bool whole = false;   ///< losses; their sum is exact in double
  bool counted = true;  ///< at least some rows are unmasked
  bool divided = true;  ///< divides by the number of tokens
  bool summed = true;   ///< sums the losses; else only counts tokens
  static constexpr double scale = 0.75;

  draw mask() const {
    return counted ? zeros_and_ones(R) : listed(std::vector<double>(std::size_t(R)));
  }
  double tokens() const { return counted ? double(R - R / 3) : 0; }

  op_maker forward() const {
    return makes([s = *this](auto t, arrays& a) {
      using T = decltype(t);
      // Sums are in double, so float rounding does not apply.
      const double units = s.whole ? 0 : 0x1p-29 * roundings_of_sum(s.R);
      const kernels::masked_loss_forward<T> op{
          .total = s.summed ? a.out<double>("total", 1, units, double(s.R)) : nullptr,
          .tokens = a.out<double>("tokens", 1, 0),
          .loss
          = s.summed ? a.in<float>("loss", s.whole ? whole_numbers(s.R, 1000) : normal_numbers(s.R))
                     : nullptr,
          .mask = a.in<T>("mask", s.mask()),
          .R = s.R};
      if (s.summed)
        a.counts("total", 0);
      a.counts("tokens", 0);
      return op;
    });
  }
  op_maker backward() const {
    return makes([s = *this](auto t, arrays& a) {
      using T = decltype(t);
      const kernels::masked_loss_backward<T> op{
          .dloss = a.out<float>("dloss", s.R, 0),
          .mask = a.in<T>("mask", s.mask()),
          .tokens
          = s.divided ? a.in<double>("tokens", listed(std::vector<double>{s.tokens()})) : nullptr,
          .scale = scale,
          .R = s.R};
      if (s.divided)
        a.counts("tokens", 0);
      // Gradient of the mean, which no operation computes; only the gradient test reads it.
      a.in<double>("dtotal", listed(std::vector<double>{scale / (s.divided ? s.tokens() : 1)}));
      a.counts("dtotal", 0);
      return op;
    });
  }
};

inline op_family masked_loss_family() {
  op_family out{.name = "masked_loss"};
  const auto add = [&out](const masked_loss_extents& s, const std::string& with) {
    const std::string shape = shape_text({{"R", s.R}}) + with;
    out.cases.push_back({.shape = shape, .op = s.forward()});
    out.cases.push_back({.shape = shape, .op = s.backward(), .before = s.forward()});
  };
  for (const std::int64_t R : {0, 1, 2, 61, 1024, 1025, 5003, 70001}) {
    add({R}, "");
    add({R, true}, " whole");
  }
  add({5, true, false}, " of which none counts");
  for (const std::int64_t R : {0, 61, 1025})
    out.cases.push_back({.shape = shape_text({{"R", R}}) + " of which only tokens are asked for",
                         .op = masked_loss_extents{.R = R, .summed = false}.forward()});
  for (const bool divided : {true, false}) {
    const masked_loss_extents s{7, true, true, divided};
    add(s, divided ? " divided" : " not divided");
    out.gradients.push_back({.shape = divided ? "" : "not divided",
                             .forward = {s.forward()},
                             .backward = {s.backward()},
                             .tolerance = 1e-7,  // dloss is a float
                             .step = step_of_floats});
  }
  return out;
}

}  // namespace troupe::tests
