// The arrangements of workers and options in the matrix, and their jobs.

#pragma once

#include "tests/support/tiny_job.hpp"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::matrix {

constexpr std::uint64_t steps = 20;

struct factor {
  const char* name;
  std::vector<const char*> choices;
};

inline const std::vector<factor>& factors() {
  static const std::vector<factor> all
      = {{"TP", {"1", "2", "4"}},
         {"PP", {"1", "2", "4"}},
         {"DP", {"1", "2", "2 in turn"}},
         {"rows", {"whole", "sharded"}},
         {"optimizer", {"whole", "whole+overlap", "distributed", "distributed+overlap"}},
         {"recompute", {"none", "selective", "full"}},
         {"model", {"gpt", "llama"}},
         {"tied", {"yes", "no"}},
         {"dropout", {"0.1", "0"}},
         {"type", {"f32", "bf16", "f16"}}};
  return all;
}

enum at : std::size_t { TP, PP, DP, rows, optimizer, recompute, model, tied, dropout, type };
using choice = std::vector<int>;  ///< one choice per factor

inline int extent(const choice& x, at which) {
  return which == DP ? (x[DP] == 1 ? 2 : 1) : 1 << x[which];
}

inline bool is_possible(const choice& x) {
  const int workers = extent(x, TP) * extent(x, PP) * extent(x, DP);
  if (workers > 8 || (x[rows] == 1 && x[TP] == 0))
    return false;
  return x[optimizer] == 0 || x[DP] == 1;  // one rank has nothing to shard or to overlap
}

/// A line of the table: cell(f) for each factor f, padded to its widest choice.
template <class Cell>
std::string line(const Cell& cell) {
  std::string out;
  for (std::size_t f = 0; f < factors().size(); ++f) {
    const auto& [name, choices] = factors()[f];
    auto width = std::max<std::size_t>(std::string_view(name).size(), 5);
    for (const std::string_view one : choices)
      width = std::max(width, one.size());
    out += fmt::format("{}{:{}}", f > 0 ? "  " : "", cell(f), width);
  }
  return out;
}

inline std::string text(const choice& x) {
  return line([&](std::size_t f) { return factors()[f].choices[std::size_t(x[f])]; });
}

inline std::string heading() {
  return line([](std::size_t f) { return factors()[f].name; });
}

inline std::vector<choice> every_choice() {
  std::vector<choice> out;
  choice x(factors().size(), 0);
  for (;;) {
    if (is_possible(x))
      out.push_back(x);
    std::size_t f = 0;
    while (f < x.size() && ++x[f] == int(factors()[f].choices.size()))
      x[f++] = 0;
    if (f == x.size())
      return out;
  }
}

/// Calls visit(number) for each triple of choices in an arrangement.
template <class Visit>
void for_each_three(const choice& x, const Visit& visit) {
  constexpr int most = 8;  // choices of a factor
  const auto number = [&](std::size_t f) { return int(f) * most + x[f]; };
  const int all = int(x.size()) * most;
  for (std::size_t a = 0; a < x.size(); ++a)
    for (std::size_t b = a + 1; b < x.size(); ++b)
      for (std::size_t c = b + 1; c < x.size(); ++c)
        visit(std::size_t((number(a) * all + number(b)) * all + number(c)));
}

/// Greedily selects the arrangement with the most new triples, until all possible triples are
/// covered.
inline std::vector<choice> covering_selection() {
  const auto all = every_choice();
  std::vector<char> missing;
  const auto fresh_of = [&](const choice& x) {
    std::size_t out = 0;
    for_each_three(x, [&](std::size_t three) { out += std::size_t(missing[three]); });
    return out;
  };
  for (const auto& x : all)
    for_each_three(x, [&](std::size_t three) {
      missing.resize(std::max(missing.size(), three + 1));
      missing[three] = 1;
    });
  std::vector<choice> out;
  for (;;) {
    std::size_t most = 0;
    const choice* best = nullptr;
    for (const auto& x : all)
      if (const auto fresh = fresh_of(x); fresh > most) {
        most = fresh;
        best = &x;
      }
    if (best == nullptr)
      return out;
    for_each_three(*best, [&](std::size_t three) { missing[three] = 0; });
    out.push_back(*best);
  }
}

inline runtime::training_job job_of(const choice& x) {
  const int data = x[DP] == 0 ? 1 : 2;
  auto job = tests::tiny_job(extent(x, PP), data);
  job.train_iterations = steps;
  auto& m = job.training.model.as<runtime::gpt_config>();
  m.hidden_dropout = m.attention_dropout = x[dropout] == 0 ? 0.1 : 0;
  m.tied_embeddings = x[tied] == 0;
  if (x[model] == 1)
    tests::make_llama(m);
  job.training.precision = x[type] == 0   ? runtime::dtype::f32
                           : x[type] == 1 ? runtime::dtype::bf16
                                          : runtime::dtype::f16;
  job.training.scaling.initial = 65536;  // no step overflows: a skipped step tests nothing
  job.layout.tensor = extent(x, TP);
  job.layout.replicas_per_worker = x[DP] == 2 ? 2 : 1;
  job.layout.world = extent(x, TP) * extent(x, PP) * extent(x, DP);
  job.layout.sequence_parallel = x[rows] == 1;
  job.reduction = {.distributed_optimizer = x[optimizer] > 1,
                   .bucket_size = 4096,
                   .overlap_gradients = x[optimizer] % 2 == 1,
                   .overlap_parameters = x[optimizer] == 3,
                   .grain = 256};
  if (x[recompute] > 0)
    job.recompute.granularity = x[recompute] == 1 ? runtime::recompute_granularity::selective
                                                  : runtime::recompute_granularity::full;
  job.recompute.feed_forward = true;
  return job;
}

}  // namespace troupe::matrix
