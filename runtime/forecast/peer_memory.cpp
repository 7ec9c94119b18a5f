#include "runtime/forecast/peer_memory.hpp"

#include "runtime/core/error.hpp"
#include "runtime/family/model_family.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace troupe::runtime {
namespace {

job_outline outline_of(const training_job& job) {
  const auto& l = job.layout;
  const auto& b = job.training.batch;
  const double cut = double(l.chunks.size()) / l.pipeline;
  return {.world = l.world,
          .tensor = l.tensor,
          .pipeline = l.pipeline,
          .stages_per_rank = std::max({1.0, cut, double(l.schedule.chunks_per_rank)}),
          .micro = b.micro,
          .global = b.global,
          .microbatches = b.global / (b.micro * b.data_parallel),
          .element_bytes = std::int64_t(size_of(job.training.precision)),
          .distributed_optimizer = job.reduction.distributed_optimizer,
          .sequence_parallel = l.sequence_parallel,
          .selective_recompute = job.recompute.granularity == recompute_granularity::selective};
}

std::optional<pytorch_memory> estimate(const training_job& job, pytorch_mode mode) {
  const auto& model = job.training.model;
  if (job.layout.tensor > 1 || job.layout.pipeline > 1 || !job.training.own.name.empty())
    return std::nullopt;
  return model.family().pytorch_estimate(model, outline_of(job), mode);
}

}  // namespace

std::optional<theoretical_memory> megatron_memory(const training_job& job) {
  const auto& model = job.training.model;
  return model.family().megatron_memory(model, outline_of(job));
}

std::string to_text(const theoretical_memory& x) {
  constexpr double megabyte = 1 << 20;
  return fmt::format(
      "Theoretical memory footprints: weight and optimizer={:.2f} MB, activation={:.2f} MB, "
      "total={:.2f} MB",
      x.weights_and_optimizer / megabyte,
      x.activations / megabyte,
      x.total() / megabyte);
}

bool has_pytorch_estimate(const training_job& job) {
  return estimate(job, pytorch_mode::eager).has_value();
}

pytorch_memory pytorch_estimate(const training_job& job, pytorch_mode mode) {
  const auto out = estimate(job, mode);
  ensure(out.has_value(), "MEMORY-1: PyTorch's memory is estimated for whole models");
  return *out;
}

}  // namespace troupe::runtime
