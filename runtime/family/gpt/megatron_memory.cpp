#include "runtime/family/gpt/gpt_estimates.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

double data_ranks(const job_outline& job) {
  return std::max(1, job.world / (job.tensor * job.pipeline));
}

double parameters_of_heaviest_worker(const gpt_config& m, const job_outline& job) {
  const auto h = double(m.hidden), q = double(m.heads * m.head_size);
  const double gated = m.gated ? 1.5 : 1;
  const double norm = m.normalization == kernels::normalization::rms ? 1 : 2;
  const double attention = 2 * h * h * ((1 + double(m.groups) / double(m.heads)) * (q / h));
  const double layers = (2 * h * double(m.ffn) * gated + attention) * double(m.layers);
  const double norms = 2 * h * norm * double(m.layers) + norm * h;
  const double embedding = h * double(m.padded_vocabulary);
  double out = layers / job.pipeline + embedding;
  if (!m.tied_embeddings && job.pipeline == 1)
    out += embedding;
  return out / job.tensor + norms / job.pipeline;  // each tensor rank has all norms
}

/// Adds the activations between embedding and layers, and counts the micro-batches in flight.
double in_flight(const gpt_config& m, const job_outline& job, double layers) {
  const double tokens = double(m.sequence * job.micro);
  const double stages = job.pipeline;
  const double all = layers + 8 * tokens * stages + tokens * double(m.hidden) * stages;
  const auto each = double(job.microbatches);
  if (const auto v = job.stages_per_rank; stages > 1 && v > 1)
    // interleaved schedules warm up with more micro-batches
    return all * (1 + (stages - 1) / (stages * v));
  return stages > 1 ? all * std::min(1.0, each / stages) : all;
}

double with_sequence_parallelism(const gpt_config& m, const job_outline& job) {
  const double h = double(m.hidden);
  const double row = double(m.sequence * job.micro) * h;
  double out = in_flight(m, job, row * (18 + 4 * double(m.ffn) / h) * double(m.layers));
  if (job.pipeline == 1)
    out += row * 4 * (1 + double(m.padded_vocabulary) / h);
  return out / job.tensor;
}

double without_sequence_parallelism(const gpt_config& m, const job_outline& job) {
  const double tensor = job.tensor;
  const double tokens = double(m.sequence * job.micro), h = double(m.hidden);
  double out = in_flight(m, job, tokens * h * (10 + 24 / tensor) * double(m.layers));
  if (job.pipeline == 1)
    out += 2 * (tokens * double(m.padded_vocabulary) / tensor + tokens * h);
  return out * 1.05;  // Megatron-LM's allowance for unlisted memory
}

}  // namespace

theoretical_memory gpt_megatron_memory(const gpt_config& m, const job_outline& job) {
  const double bytes = job.distributed_optimizer ? 6 + 12 / data_ranks(job) : 18;
  const bool own_formula = job.sequence_parallel && job.selective_recompute;
  return {parameters_of_heaviest_worker(m, job) * bytes,
          own_formula ? with_sequence_parallelism(m, job) : without_sequence_parallelism(m, job)};
}

}  // namespace troupe::runtime
