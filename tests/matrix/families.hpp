// Arrangements of model families: the smallest model of each, on stages of any shape, with the
// options of a layout.

#pragma once

#include "tests/support/family_job.hpp"

#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>
#include <string>
#include <vector>

namespace troupe::matrix {

struct family_arrangement {
  std::string name;
  runtime::training_job job;
  bool selected = false;  ///< part of the selection that CI runs
};

struct layout_option {
  const char* name;
  int data = 1, tensor = 1;
  void (*change)(runtime::training_job&) = [](runtime::training_job&) {};
};

inline const std::vector<layout_option>& layout_options() {
  using job = runtime::training_job;
  using enum runtime::recompute_granularity;
  static const std::vector<layout_option> all
      = {{"DP 1"},
         {"DP 2", 2},
         {"DP 2, in turn", 2, 1, [](job& x) { tests::play_in_turn(x, 2); }},
         {"DP 2, overlapped", 2, 1, [](job& x) { x.reduction.overlap_gradients = true; }},
         {"DP 2, distributed", 2, 1, [](job& x) { x.reduction.distributed_optimizer = true; }},
         {"DP 2, distributed, overlapped",
          2,
          1,
          [](job& x) {
            x.reduction.distributed_optimizer = x.reduction.overlap_gradients
                = x.reduction.overlap_parameters = true;
          }},
         {"DP 2, verified", 2, 1, [](job& x) { x.recovery.verify_fraction = 0.5; }},
         {"TP 2", 1, 2},
         {"TP 2, rows", 1, 2, [](job& x) { x.layout.sequence_parallel = true; }},
         {"per token", 1, 1, [](job& x) { x.training.per_token_loss = true; }},
         {"bf16", 1, 1, [](job& x) { x.training.precision = runtime::dtype::bf16; }},
         {"f16",
          1,
          1,
          [](job& x) {
            x.training.precision = runtime::dtype::f16;
            x.training.scaling.initial = 65536;  // no step overflows
          }},
         {"recompute full", 1, 1, [](job& x) { x.recompute.granularity = full; }},
         {"recompute selective", 1, 1, [](job& x) {
            x.recompute.granularity = selective;
            x.recompute.feed_forward = true;
          }}};
  return all;
}

constexpr std::size_t each_unit = 2;  ///< number of the cuts with a stage for each unit

/// No cut, an empty stage between two, a stage for each unit, and each single cut.
inline std::vector<std::vector<std::int64_t>> cuts_of(const runtime::model_family& family) {
  const auto units = std::int64_t(family.smallest(3).spec().units.size());
  std::vector<std::int64_t> each(std::size_t(units - 1));
  std::iota(each.begin(), each.end(), 1);
  std::vector<std::vector<std::int64_t>> out{{}, {2, 2, units - 1}, each};
  for (const auto cut : each)
    out.push_back({cut});
  return out;
}

/// All cuts with all options, and schedules, those with two copies of the model too. The selection
/// has each cut and each option once.
inline std::vector<family_arrangement> family_arrangements(const runtime::model_family& family) {
  std::vector<family_arrangement> out;
  const auto cuts = cuts_of(family);
  const auto& options = layout_options();
  for (std::size_t c = 0; c < cuts.size(); ++c)
    for (std::size_t o = 0; o < options.size(); ++o) {
      auto job = tests::family_job(family, cuts[c], options[o].data, options[o].tensor);
      options[o].change(job);
      out.push_back(
          {fmt::format(
               "{}: cuts [{}], {}", family.name(), fmt::join(cuts[c], " "), options[o].name),
           job,
           c < options.size() ? o % cuts.size() == c : o == c % options.size()});
    }
  for (const std::string schedule : {"gpipe", "zb-h1"})
    out.push_back({fmt::format("{}: {}", family.name(), schedule),
                   tests::scheduled_job(family, schedule, 2, {3}),
                   true});
  for (const std::string schedule : {"interleaved", "zb-v"})
    out.push_back({fmt::format("{}: {}", family.name(), schedule),
                   tests::scheduled_job(family, schedule, 2, {1, 4, 5}),
                   true});
  const auto add_two_copies = [&](const char* name,
                                  int ranks,
                                  const std::vector<std::int64_t>& starts,
                                  int data = 1,
                                  bool distributed = false) {
    auto job = tests::scheduled_job(family, "dualpipe", ranks, starts, data);
    job.training.batch.micro = 1;  // each copy needs as many micro-batches as there are ranks
    job.reduction.distributed_optimizer = distributed;
    out.push_back({fmt::format("{}: dualpipe, {}", family.name(), name), job, true});
  };
  add_two_copies("PP 2", 2, {3});
  add_two_copies("PP 2, DP 2", 2, {3}, 2);
  add_two_copies("PP 2, DP 2, distributed", 2, {3}, 2, true);
  add_two_copies("PP 4, ties on other ranks in each copy", 4, {1, 5, 6});
  add_two_copies("PP 4, ties on other ranks, distributed", 4, {1, 5, 6}, 1, true);
  return out;
}

}  // namespace troupe::matrix
