// The arrangements of workers and options in the matrix, and their jobs.

#pragma once

#include "tests/matrix/covering.hpp"
#include "tests/support/tiny_job.hpp"

#include <cstdint>

namespace troupe::matrix {

constexpr std::uint64_t steps = 20;

enum at : std::size_t { TP, PP, DP, rows, optimizer, recompute, model, tied, dropout, type };

inline int extent(const choice& x, at which) {
  return which == DP ? (x[DP] == 1 ? 2 : 1) : 1 << x[which];
}

inline bool is_possible(const choice& x) {
  const int workers = extent(x, TP) * extent(x, PP) * extent(x, DP);
  if (workers > 8 || (x[rows] == 1 && x[TP] == 0))
    return false;
  return x[optimizer] == 0 || x[DP] == 1;  // one rank has nothing to shard or to overlap
}

inline const choice_table& arrangements() {
  static const choice_table all
      = {{{"TP", {"1", "2", "4"}},
          {"PP", {"1", "2", "4"}},
          {"DP", {"1", "2", "2 in turn"}},
          {"rows", {"whole", "sharded"}},
          {"optimizer", {"whole", "whole+overlap", "distributed", "distributed+overlap"}},
          {"recompute", {"none", "selective", "full"}},
          {"model", {"gpt", "llama"}},
          {"tied", {"yes", "no"}},
          {"dropout", {"0.1", "0"}},
          {"type", {"f32", "bf16", "f16"}}},
         is_possible};
  return all;
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
