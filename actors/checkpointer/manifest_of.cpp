#include "actors/checkpointer/manifest_of.hpp"

#include "runtime/core/json_text.hpp"
#include "runtime/job/device_setup.hpp"
#include "runtime/model/stages.hpp"

#include <nlohmann/json.hpp>

namespace troupe::actors {

runtime::checkpoint_manifest manifest_of(const messages::save& order,
                                         const opened_job& opened,
                                         const std::string& identity) {
  const auto& job = opened.job;
  runtime::checkpoint_manifest out;
  out.consumed_samples = std::int64_t(order.consumed);
  out.skipped = order.skipped;
  out.scale = order.scale;
  out.model = job.training.model;
  out.identity = order.identity.empty() ? identity : order.identity;
  out.products = runtime::products_of(job);
  const auto letters = runtime::letters_of(job.training);
  const auto& cut = job.layout;
  nlohmann::json layout{
      {"world_size", cut.world},
      {"tensor_model_parallel_size", cut.tensor},
      {"pipeline_model_parallel_size", cut.pipeline},
      {"sequence_parallel", cut.sequence_parallel},
      {"pipeline_model_parallel_layout", to_text(opened.pipeline.chunks, letters)},
      {"distributed_optimizer", job.reduction.distributed_optimizer},
      {"replicas_per_worker", cut.replicas_per_worker},
      {"rank_order", cut.order}};
  if (cut.expert > 1)
    layout["expert_model_parallel_size"] = cut.expert;
  if (cut.expert_tensor_ranks() != cut.tensor)
    layout["expert_tensor_parallel_size"] = cut.expert_tensor;
  out.layout = runtime::json_text(layout);
  return out;
}

}  // namespace troupe::actors
