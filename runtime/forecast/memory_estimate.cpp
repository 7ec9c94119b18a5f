#include "runtime/forecast/memory_estimate.hpp"

#include <algorithm>

namespace troupe::runtime {

double estimate_memory(const model_outline& model, const step_outline& step) {
  const rank_share share{.tensor = double(step.tensor),
                         .expert = double(step.expert),
                         .expert_tensor = double(step.expert_tensor)};
  const double t = step.tensor, rows = double(step.micro) * model.sequence / step.context;
  const double element = double(size_of(step.precision));
  const double stream = step.sequence_parallel ? t : 1;
  const auto p = std::size_t(step.pipeline);
  const double v = double(step.chunks.size()) / double(p), m = step.microbatches();
  const bool rounds = element < 4;  // master weights beside rounded ones
  const double shards = step.distributed_optimizer ? step.data() * step.context : 1;
  const double expert_shards
      = step.distributed_optimizer
            ? std::max(1.0, double(step.world) / (double(p) * step.expert * step.expert_tensor))
            : 1;
  const double state = 8 + (rounds ? 4 : 0);
  std::vector<parameter_share> sizes;
  for (const auto& kind : model.kinds)
    sizes.push_back(parameters_of(kind, share));
  const auto kind_of = [&](int layer) { return std::size_t(model.layers[std::size_t(layer)]); };
  double most = 0;
  for (std::size_t r = 0; r < p; ++r) {
    double kept = 0, bytes = 0, largest = 0;
    // Micro-batches that 1F1B holds on rank r, or an interleaved schedule: its warm-up and one.
    const double held = p == 1 ? 1
                        : v > 1
                            ? std::min(m, (double(p) * (v - 1) + 2.0 * double(p - 1 - r) + 1) / v)
                            : std::min(m, double(p - r));
    for (std::size_t c = r; c < step.chunks.size(); c += p) {
      const auto& chunk = step.chunks[c];
      double dense = 0, experts = 0;
      const double table = model.vocabulary * model.hidden / t;
      if (chunk.embedding)
        dense += table + model.positions * model.hidden;
      if (chunk.head) {
        dense += !model.tied || !chunk.embedding ? table : 0;
        largest = std::max(largest, rows * model.vocabulary / t * (element + 4));
      }
      for (int layer = chunk.first; layer < chunk.end; ++layer) {
        const auto& kind = model.kinds[kind_of(layer)];
        const auto& size = sizes[kind_of(layer)];
        dense += size.dense;
        experts += size.experts;
        const double all
            = rows * element * (kind.kept / t + kind.kept_stream / stream + kind.kept_routed / t);
        const bool again = step.recompute.granularity == recompute_granularity::full
                           && (step.recompute.method == recompute_method::uniform
                               || layer - chunk.first < step.recompute.layers);
        kept += again ? rows * element * model.hidden / stream : all;
        largest = std::max(largest, again ? all : 0);
      }
      bytes += (dense + experts) * (element + step.gradient_bytes)
               + state * (dense / shards + experts / expert_shards);
    }
    most = std::max(most, bytes + kept * held + largest);
  }
  return most;
}

}  // namespace troupe::runtime
