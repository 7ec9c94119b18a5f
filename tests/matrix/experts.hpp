// Arrangements of models with experts: ranks that share them, in one replica or in several, with
// the options of a layout.

#pragma once

#include "tests/matrix/covering.hpp"
#include "tests/support/family_job.hpp"

#include <cstdint>
#include <vector>

namespace troupe::matrix::experts {

enum at : std::size_t {
  EP,
  ETP,
  TP,
  PP,
  DP,
  schedule,
  optimizer,
  recompute,
  dispatcher,
  sums,
  model,
  type
};

inline int ranks(const choice& x, at which) {
  return 1 << x[which];
}
inline int replicas(const choice& x) {
  return x[DP] == 0 ? 1 : x[DP] == 1 ? 2 : 4;
}
inline int data_ranks(const choice& x) {
  return x[DP] == 3 ? 2 : replicas(x);
}

inline bool is_possible(const choice& x) {
  const int stage = ranks(x, TP) * data_ranks(x), share = ranks(x, EP) * ranks(x, ETP);
  if (stage * ranks(x, PP) > 8 || stage % share != 0)
    return false;
  if (x[EP] == 0 && (x[dispatcher] > 0 || x[sums] > 0 || share * ranks(x, TP) == 1))
    return false;  // nothing to send or to add; or a dense layout
  if (x[recompute] == 3 && (x[model] == 0 || x[model] == 3))
    return false;  // it has no shared experts
  if (x[DP] == 3 && x[model] == 3)
    return false;  // a loss over replicas
  if (x[schedule] == 1 && (x[PP] == 0 || x[DP] == 3 || x[optimizer] % 2 == 1))
    return false;                                 // DualPipe has its own rules
  return x[optimizer] == 0 || data_ranks(x) > 1;  // one rank has nothing to shard or to overlap
}

/// Several tensor ranks shard rows.
inline const choice_table& arrangements() {
  static const choice_table all
      = {{{"EP", {"1", "2", "4"}},
          {"ETP", {"1", "2"}},
          {"TP", {"1", "2"}},
          {"PP", {"1", "2"}},
          {"DP", {"1", "2", "4", "4 in turn"}},
          {"schedule", {"1f1b", "dualpipe"}},
          {"optimizer", {"whole", "whole+overlap", "distributed", "distributed+overlap"}},
          {"recompute", {"none", "moe", "moe_act", "shared", "full"}},
          {"dispatcher", {"alltoall", "allgather"}},
          {"sums", {"by_source", "together"}},
          {"model", {"mixtral", "deepseek", "mixture", "qwen"}},
          {"type", {"f32", "bf16"}}},
         is_possible};
  return all;
}

inline runtime::training_job job_of(const choice& x) {
  const auto cuts = x[PP] == 0 ? std::vector<std::int64_t>() : std::vector<std::int64_t>{5};
  const tests::expert_ranks shared{ranks(x, EP), ranks(x, ETP)};
  tests::test_families();  // registers them
  auto job = x[model] == 2 ? tests::family_job(
                 runtime::find_family("mixture"), cuts, replicas(x), ranks(x, TP), shared)
                           : tests::experts_job(ranks(x, PP),
                                                replicas(x),
                                                ranks(x, TP),
                                                shared,
                                                x[model] == 0   ? tests::make_mixtral
                                                : x[model] == 1 ? tests::make_deepseek
                                                                : tests::make_qwen);
  job.training.batch.global = 16;
  if (x[schedule] == 1) {
    job.training.batch.micro = 1;  // each copy needs as many micro-batches as there are ranks
    job.layout.schedule.source = "dualpipe";
  }
  job.train_iterations = 6;
  job.training.optimizer.epsilon = 1e-4;  // else tiny gradients move weights by their signs alone
  job.training.precision = x[type] == 0 ? runtime::dtype::f32 : runtime::dtype::bf16;
  if (x[DP] == 3)
    tests::play_in_turn(job, 2);
  job.layout.dispatcher = x[dispatcher] == 0 ? runtime::token_dispatcher::alltoall
                                             : runtime::token_dispatcher::allgather;
  job.layout.expert_sums
      = x[sums] == 0 ? runtime::source_sums::by_source : runtime::source_sums::together;
  job.reduction = {.distributed_optimizer = x[optimizer] > 1,
                   .bucket_size = 2048,
                   .overlap_gradients = x[optimizer] % 2 == 1,
                   .overlap_parameters = x[optimizer] == 3,
                   .grain = 64};
  if (x[recompute] > 0)
    job.recompute = {.granularity = x[recompute] == 4 ? runtime::recompute_granularity::full
                                                      : runtime::recompute_granularity::selective,
                     .core_attention = false,
                     .experts = x[recompute] == 1,
                     .expert_activation = x[recompute] == 2,
                     .shared_experts = x[recompute] == 3};
  return job;
}

/// The job whose reference trainer has the expected bits. SUMS-1: by source, with one tensor rank
/// and one expert tensor rank, they are those of one worker.
inline runtime::training_job judge_of(const runtime::training_job& of) {
  auto job = tests::with_copies_as_replicas(of);
  auto& l = job.layout;
  if (l.tensor == 1 && l.expert_tensor == 1 && l.expert_sums == runtime::source_sums::by_source)
    l.expert = 1;
  return job;
}

/// The same model and batch on one worker; with a loss over replicas, on one for each of them.
inline runtime::training_job on_one_worker(const runtime::training_job& of) {
  auto job = tests::with_copies_as_replicas(of);
  auto& l = job.layout;
  l.tensor = l.expert = l.expert_tensor = 1;
  l.sequence_parallel = false;
  return job;
}

}  // namespace troupe::matrix::experts
