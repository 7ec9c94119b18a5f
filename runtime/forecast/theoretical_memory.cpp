#include "runtime/forecast/theoretical_memory.hpp"

#include "kernels/op/kinds.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace troupe::runtime {
namespace {

double data_ranks(const training_job& job) {
  return std::max(1, job.layout.world / (job.layout.tensor * job.layout.pipeline));
}

double parameters_of_heaviest_worker(const training_job& job) {
  const auto& m = job.training.model;
  const auto h = double(m.hidden), q = double(m.heads * m.head_size);
  const double gated = m.activation == kernels::activation::swiglu ? 1.5 : 1;
  const double norm = m.normalization == kernels::normalization::rms ? 1 : 2;
  const double attention = 2 * h * h * ((1 + double(m.groups) / double(m.heads)) * (q / h));
  const double layers = (2 * h * double(m.ffn) * gated + attention) * double(m.layers);
  const double norms = 2 * h * norm * double(m.layers) + norm * h;
  const double embedding = h * double(m.padded_vocabulary);
  double out = layers / job.layout.pipeline + embedding;
  if (!m.tied_embeddings && job.layout.pipeline == 1)
    out += embedding;
  return out / job.layout.tensor + norms / job.layout.pipeline;  // each tensor rank has all norms
}

double virtual_stages(const training_job& job) {
  const auto& l = job.layout;
  const double cut = double(l.chunks.size()) / l.pipeline;
  return std::max({1.0, cut, double(l.schedule.chunks_per_rank)});
}

/// Adds the activations between embedding and layers, and counts the micro-batches in flight.
double in_flight(const training_job& job, double layers) {
  const auto& m = job.training.model;
  const double tokens = double(m.sequence * job.training.batch.micro);
  const double stages = job.layout.pipeline;
  const double all = layers + 8 * tokens * stages + tokens * double(m.hidden) * stages;
  const auto& b = job.training.batch;
  const std::int64_t microbatches = b.global / (b.micro * b.data_parallel);
  const auto each = double(microbatches);
  if (const auto v = virtual_stages(job); stages > 1 && v > 1)
    // interleaved schedules warm up with more micro-batches
    return all * (1 + (stages - 1) / (stages * v));
  return stages > 1 ? all * std::min(1.0, each / stages) : all;
}

double with_sequence_parallelism(const training_job& job) {
  const auto& m = job.training.model;
  const double h = double(m.hidden);
  const double row = double(m.sequence * job.training.batch.micro) * h;
  double out = in_flight(job, row * (18 + 4 * double(m.ffn) / h) * double(m.layers));
  if (job.layout.pipeline == 1)
    out += row * 4 * (1 + double(m.padded_vocabulary) / h);
  return out / job.layout.tensor;
}

double without_sequence_parallelism(const training_job& job) {
  const auto& m = job.training.model;
  const double tensor = job.layout.tensor;
  const double tokens = double(m.sequence * job.training.batch.micro), h = double(m.hidden);
  double out = in_flight(job, tokens * h * (10 + 24 / tensor) * double(m.layers));
  if (job.layout.pipeline == 1)
    out += 2 * (tokens * double(m.padded_vocabulary) / tensor + tokens * h);
  return out * 1.05;  // Megatron-LM's allowance for unlisted memory
}

}  // namespace

theoretical_memory megatron_memory(const training_job& job) {
  const double bytes = job.reduction.distributed_optimizer ? 6 + 12 / data_ranks(job) : 18;
  const bool own_formula = job.layout.sequence_parallel
                           && job.recompute.granularity == recompute_granularity::selective;
  return {parameters_of_heaviest_worker(job) * bytes,
          own_formula ? with_sequence_parallelism(job) : without_sequence_parallelism(job)};
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

}  // namespace troupe::runtime
