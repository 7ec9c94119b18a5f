// Tiny jobs of GPTs with experts.

#pragma once

#include "tests/support/tiny_job.hpp"

namespace troupe::tests {

/// Mixtral: a Llama with four experts, two for each token, and losses of the balance.
inline void make_mixtral(runtime::gpt_config& m) {
  make_llama(m);
  m.experts = {.number = 4, .ffn = 24, .balance_weights = {1e-2}, .z_weight = 1e-3};
}

/// Qwen3: as Mixtral, but also balanced over the rows of all replicas.
inline void make_qwen(runtime::gpt_config& m) {
  make_mixtral(m);
  m.experts.balance = {"aux_loss", "global_aux_loss"};
  m.experts.balance_weights = {1e-2, 1e-1};
}

/// DeepSeek-V3: sigmoids, experts of one of two groups, a bias that changes in each step, shared
/// experts, and a first layer without experts.
inline void make_deepseek(runtime::gpt_config& m) {
  make_llama(m);
  m.experts = {.number = 4,
               .layers = "([0]*1+[1]*3)",
               .ffn = 24,
               .shared_ffn = 16,
               .score = "sigmoid",
               .scale = 2.5,
               .groups = 2,
               .group_topk = 1,
               .balance = {"seq_aux_loss"},
               .balance_weights = {1e-3},
               .expert_bias = true,
               .bias_rate = 0.02};
}

/// Ranks that share experts.
struct expert_ranks {
  int expert = 1, tensor = 1;
};

/// Several tensor ranks shard rows, as a rule demands.
inline void share_experts(runtime::training_job& job, const expert_ranks& of) {
  job.layout.expert = of.expert;
  job.layout.expert_tensor = of.tensor;
  job.layout.sequence_parallel = job.layout.tensor > 1;
}

/// tiny_job with the model of `make`.
inline runtime::training_job experts_job(int pipeline,
                                         int data,
                                         int tensor,
                                         const expert_ranks& of,
                                         void (*make)(runtime::gpt_config&) = make_deepseek) {
  auto job = tiny_job(pipeline, data, tensor);
  make(job.training.model.as<runtime::gpt_config>());
  share_experts(job, of);
  job.data.mock = true;
  return job;
}

}  // namespace troupe::tests
