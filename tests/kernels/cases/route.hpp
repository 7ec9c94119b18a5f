// Cases of the router of a mixture of experts (op_case.hpp).

#pragma once

#include "tests/kernels/op_case.hpp"

#include <array>
#include <limits>

namespace troupe::tests {

struct route_extents {
  enum class logits { normal, equal, extreme, apart };
  enum class choice { best, given, round_robin };

  std::int64_t sequences, T_;
  kernels::route_rules rules;
  bool with_bias = false;
  logits drawn = logits::normal;
  choice by = choice::best;
  std::int64_t first_row = 0;
  static constexpr double dsquare = 0.25;

  std::int64_t R() const { return sequences * T_ - first_row; }
  std::int64_t E() const { return rules.E; }
  std::int64_t cells() const { return sequences * rules.E; }
  bool alone() const { return kernels::scores_alone(rules); }
  double units() const { return 16 + roundings_in_lanes(E()); }
  std::string text() const {
    constexpr const char* names[] = {"softmax of chosen", "softmax", "sigmoid", "sqrt softplus"};
    constexpr const char* of_logits[] = {"", " equal", " extreme", " apart"};
    return std::string(names[int(rules.score)]) + " "
           + shape_text({{"sequences", sequences},
                         {"T", T_},
                         {"E", E()},
                         {"k", rules.k},
                         {"groups", rules.groups},
                         {"from row", first_row}})
           + of_logits[int(drawn)] + (with_bias ? " bias" : "")
           + (rules.by_logit ? " by logit" : "")
           + (by == choice::given         ? " given"
              : by == choice::round_robin ? " round robin"
                                          : "");
  }

  draw numbers() const {
    if (drawn == logits::normal)
      return normal_numbers(R() * E());
    std::vector<double> out;
    constexpr double infinity = std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < R() * E(); ++i) {
      const std::int64_t r = i / E(), e = i % E();
      const double wave = std::sin(double(i)) * 3;
      if (drawn == logits::equal)
        out.push_back(0.5);
      else if (drawn == logits::apart)  // no two within a step of finite differences
        out.push_back(double(i * 37 % 101) / 25 - 2 + std::sin(double(i)) / 1000);
      else if (r % 5 == 0)
        out.push_back(e % 2 == 0 ? -infinity : wave);
      else if (r % 5 == 1)
        out.push_back(-infinity);
      else if (r % 5 == 2)
        out.push_back(e == E() / 2 ? std::numeric_limits<double>::quiet_NaN() : wave);
      else
        out.push_back(r % 5 == 4 ? wave - 50 : kernels::keys_are_logits(rules) ? wave * 60 : wave);
    }
    return listed(out);
  }

  op_maker forward(bool with_cutoff = false) const {
    return makes([s = *this, with_cutoff](auto t, arrays& a) {
      using T = decltype(t);
      std::vector<double> given;
      for (std::int64_t i = 0; i < s.R() * s.rules.k; ++i)
        given.push_back(double((i / s.rules.k * 5 + i % s.rules.k) % s.E()));
      return kernels::route<T>{
          .chosen = a.out<std::int32_t>("chosen", s.R() * s.rules.k, 0),
          .weights = a.out<T>("weights", s.R() * s.rules.k, s.units()),
          .lse = a.out<T>("lse", s.R(), s.units(), 8),
          .total = s.alone() ? a.out<T>("total", s.R(), s.units()) : nullptr,
          .cutoff = with_cutoff ? a.out<T>("cutoff", s.R(), s.units(), 1) : nullptr,
          .logits = a.in<T>("logits", s.numbers()),
          .bias = s.with_bias ? a.in<T>("bias", normal_numbers(s.E())) : nullptr,
          .given = s.by == choice::given ? a.in<std::int32_t>("given", listed(given)) : nullptr,
          .R = s.R(),
          .rules = s.rules,
          .round_robin = s.by == choice::round_robin,
          .first_row = s.first_row};
    });
  }
  /// Writes the choice only: the losses count a second choice if the router has a bias or groups.
  op_maker choice_only() const {
    return makes([s = *this](auto t, arrays& a) {
      using T = decltype(t);
      return kernels::route<T>{.chosen = a.out<std::int32_t>("chosen", s.R() * s.rules.k, 0),
                               .weights = nullptr,
                               .lse = nullptr,
                               .total = nullptr,
                               .cutoff = nullptr,
                               .logits = a.in<T>("logits", s.numbers()),
                               .bias = nullptr,
                               .given = nullptr,
                               .R = s.R(),
                               .rules = s.rules};
    });
  }
  op_maker backward(bool of_weights, bool of_sums) const {
    return makes([s = *this, of_weights, of_sums](auto t, arrays& a) {
      using T = decltype(t);
      // Gradients of probabilities, then of the squares, as in `sums`.
      std::vector<double> dsums;
      for (std::int64_t i = 0; i < s.cells(); ++i)
        dsums.push_back(std::cos(double(i)));
      dsums.push_back(dsquare);
      const auto* const of_probabilities = of_sums ? a.in<T>("dsums", listed(dsums)) : nullptr;
      if (of_sums)
        a.counts("dsums", 0);
      return kernels::route_backward<T>{
          .dlogits = a.out<T>("dlogits", s.R() * s.E(), s.units(), 1),
          .dweights = of_weights ? a.in<T>("dweights", normal_numbers(s.R() * s.rules.k)) : nullptr,
          .dprobabilities = of_probabilities,
          .logits = a.in<T>("logits", s.numbers()),
          .chosen = a.in<std::int32_t>("chosen", whole_numbers(s.R() * s.rules.k, s.E())),
          .lse = a.in<T>("lse", normal_numbers(s.R())),
          .total = s.alone() ? a.in<T>("total", positive_numbers(s.R())) : nullptr,
          .R = s.R(),
          .T_ = s.T_,
          .rules = s.rules,
          .dsquare = of_sums ? dsquare : 0,
          .first_row = s.first_row};
    });
  }
  op_maker sums() const {
    return makes([s = *this](auto t, arrays& a) {
      using T = decltype(t);
      return kernels::route_sums<T>{
          .sums = a.out<double>("sums", s.cells() + 1, s.units()),
          .counts = a.out<std::uint64_t>("counts", s.cells(), 0),
          .logits = a.in<T>("logits", s.numbers()),
          .chosen = a.in<std::int32_t>("chosen", whole_numbers(s.R() * s.rules.k, s.E())),
          .lse = a.in<T>("lse", normal_numbers(s.R())),
          .total = s.alone() ? a.in<T>("total", positive_numbers(s.R())) : nullptr,
          .R = s.R(),
          .S = s.sequences,
          .T_ = s.T_,
          .rules = s.rules,
          .first_row = s.first_row};
    });
  }
  op_maker counts_only() const {
    return makes([s = *this](auto t, arrays& a) {
      using T = decltype(t);
      return kernels::route_sums<T>{
          .sums = nullptr,
          .counts = a.out<std::uint64_t>("counts", s.cells(), 0),
          .logits = nullptr,
          .chosen = a.in<std::int32_t>("chosen", whole_numbers(s.R() * s.rules.k, s.E())),
          .lse = nullptr,
          .total = nullptr,
          .R = s.R(),
          .S = s.sequences,
          .T_ = s.T_,
          .rules = s.rules};
    });
  }
  op_maker quantile() const {
    return makes([s = *this](auto t, arrays& a) {
      using T = decltype(t);
      return kernels::expert_quantile<T>{.bias = a.out<T>("next", s.E(), s.units(), 4),
                                         .logits = a.in<T>("logits", s.numbers()),
                                         .lse = a.in<T>("lse", normal_numbers(s.R())),
                                         .cutoff = a.in<T>("cutoff", normal_numbers(s.R())),
                                         .R = s.R(),
                                         .rules = s.rules};
    });
  }
};

struct route_losses_extents {
  std::int64_t parts, S, E, k, T_;
  bool merged = false, of_all = false, accumulates = false, loss_only = false, z_only = false;

  op_maker losses() const {
    return makes([s = *this](auto t, arrays& a) {
      using T = decltype(t);
      const double units = 0x1p-27 * roundings_of_sum(s.parts * s.S * s.E);
      const std::int64_t cells = s.S * s.E;
      const kernels::route_losses<T> op{
          .balance = s.z_only ? nullptr : a.out<double>("balance", 2, units),
          .z = s.loss_only ? nullptr : a.out<double>("z", 2, units),
          .dprobabilities = s.loss_only || s.z_only
                                ? nullptr
                                : total_of<T>(a, "dprobabilities", cells, s.accumulates, 2),
          .sums = a.in<double>("sums", positive_numbers(s.parts * (cells + 1))),
          .counts = a.in<std::uint64_t>("counts", whole_numbers(s.parts * cells, s.T_ + 1)),
          .counts_of_all
          = s.of_all ? a.in<std::uint64_t>("counts_of_all", whole_numbers(s.E, 1000)) : nullptr,
          .parts = s.parts,
          .S = s.S,
          .E = s.E,
          .k = s.k,
          .T_ = s.T_,
          .merged = s.merged,
          .rows_of_all = 500,
          .dmean = 0.37,
          .accumulates = s.accumulates};
      for (const char* name : {"balance", "z", "dprobabilities", "counts_of_all"})
        if (a.find(name) != nullptr)
          a.counts(name, 0);
      return op;
    });
  }
};

inline op_family route_family() {
  using extents = route_extents;
  using kernels::route_score;
  op_family out{.name = "route"};
  const auto add = [&out](const extents& s) {
    const bool large = s.R() * s.E() > 32768;
    out.cases.push_back({.shape = s.text(), .op = s.forward(), .large = large});
    if (s.drawn == extents::logits::extreme)
      return;
    // On the emulated device it has 57,000 switches of threads per expert, whatever R is.
    if ((s.rules.score == route_score::softmax || s.rules.score == route_score::sigmoid)
        && s.rules.k < s.E() && s.rules.groups == 1)
      out.cases.push_back({.shape = s.text(),
                           .op = s.quantile(),
                           .before = s.forward(true),
                           .large = large || s.E() > 64});
    if (s.rules.by_logit || s.rules.groups > 1)  // the others do not read these rules
      return;
    out.cases.push_back({.shape = s.text() + " of weights",
                         .op = s.backward(true, false),
                         .before = s.forward(),
                         .large = large});
    out.cases.push_back({.shape = s.text() + " of all",
                         .op = s.backward(true, true),
                         .before = s.forward(),
                         .large = large});
    out.cases.push_back({.shape = s.text(), .op = s.sums(), .before = s.forward(), .large = large});
  };
  for (const auto score : kernels::every_route_score) {
    // No row; one expert; all experts chosen; primes; vectors with tails; Mixtral; many experts, a
    // size above that of the small kernel; several threads; more chosen experts than lanes.
    for (const auto& [sequences, T_, E, k] : {std::array<std::int64_t, 4>{0, 5, 4, 2},
                                              {2, 3, 1, 1},
                                              {2, 5, 7, 7},
                                              {3, 7, 13, 1},
                                              {2, 9, 61, 6},
                                              {2, 64, 8, 2},
                                              {1, 17, 256, 8},
                                              {1, 3, 896, 16},
                                              {2, 701, 64, 6},
                                              {1, 3, 80, 40},
                                              {1, 3, 70, 70}})
      add({sequences, T_, {.E = E, .k = k, .score = score, .scale = 2.5F}});
    for (const bool by_logit : {false, true}) {
      if (by_logit && score == route_score::softmax_of_chosen)
        continue;  // always by logit
      add({2, 19, {.E = 33, .k = 4, .score = score, .by_logit = by_logit}, true});
      add({2,
           19,
           {.E = 32,
            .k = 4,
            .score = score,
            .by_logit = by_logit,
            .groups = 8,
            .group_topk = 2,
            .group_best = 2},
           true});
    }
    // Groups of one expert; one group of all; all experts of the best groups.
    for (const auto& [groups, topk, best, k] :
         {std::array<std::int64_t, 4>{24, 7, 1, 7}, {4, 1, 6, 6}, {3, 2, 3, 16}})
      add({2,
           7,
           {.E = 24,
            .k = k,
            .score = score,
            .groups = groups,
            .group_topk = topk,
            .group_best = best}});
    // More groups than lanes.
    add({1, 5, {.E = 80, .k = 9, .score = score, .groups = 40, .group_topk = 20, .group_best = 2}});
    add({3, 5, {.E = 9, .k = 3, .score = score}, false, extents::logits::equal});
    for (const std::int64_t k : {1, 3})
      add({3, 5, {.E = 9, .k = k, .score = score}, false, extents::logits::extreme});
    for (const auto by : {extents::choice::given, extents::choice::round_robin})
      add({3, 7, {.E = 12, .k = 5, .score = score}, true, extents::logits::normal, by, 9});
    const extents alone{2, 11, {.E = 40, .k = 5, .score = score}};
    out.cases.push_back({.shape = alone.text() + " choice only", .op = alone.choice_only()});
    out.cases.push_back({.shape = alone.text() + " counts only", .op = alone.counts_only()});

    for (const std::int64_t k : {1, 3}) {
      const extents s{2,
                      3,
                      {.E = 7, .k = k, .score = score, .scale = 2.5F},
                      false,
                      extents::logits::apart,
                      extents::choice::best,
                      1};
      out.gradients.push_back({.shape = s.text(),
                               .forward = {s.forward(), s.sums()},
                               .backward = {s.backward(true, true)}});
    }
    const extents grouped{
        1,
        5,
        {.E = 8, .k = 4, .score = score, .groups = 4, .group_topk = 2, .group_best = 2},
        false,
        extents::logits::apart};
    out.gradients.push_back({.shape = grouped.text(),
                             .forward = {grouped.forward()},
                             .backward = {grouped.backward(true, false)}});
  }
  // More rows than a device has blocks.
  const extents many{1, 4300, {.E = 4, .k = 1, .groups = 2, .group_best = 2}};
  out.cases.push_back({.shape = many.text(), .op = many.forward(true)});
  out.cases.push_back(
      {.shape = many.text(), .op = many.backward(true, true), .before = many.forward()});
  for (const auto& [parts, S, E, k, T_] : {std::array<std::int64_t, 5>{1, 1, 1, 1, 3},
                                           {1, 1, 8, 2, 64},
                                           {1, 3, 13, 4, 7},
                                           {4, 2, 61, 6, 40},
                                           {2, 5, 300, 8, 16}})
    for (const bool merged : {false, true}) {
      const std::string shape = shape_text({{"parts", parts}, {"S", S}, {"E", E}})
                                + (merged ? " merged" : " by sequence");
      const auto add_losses = [&](const std::string& with, route_losses_extents s) {
        s.merged = merged;
        out.cases.push_back({.shape = shape + with, .op = s.losses()});
      };
      const route_losses_extents s{parts, S, E, k, T_};
      add_losses("", s);
      auto with = s;
      with.accumulates = true;
      add_losses(" added", with);
      with.of_all = true;
      add_losses(" counts of all", with);
      with = s;
      with.loss_only = true;
      add_losses(" loss only", with);
      with = s;
      with.z_only = true;
      add_losses(" z only", with);
    }
  return out;
}

}  // namespace troupe::tests
