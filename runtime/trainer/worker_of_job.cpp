#include "runtime/trainer/worker_of_job.hpp"

#include <algorithm>

namespace troupe::runtime {

worker_settings settings_of(const training_job& job, const job_pipeline& pipeline, int rank) {
  worker_settings out{.model = spec_of(job.training),
                      .seed = job.training.seed,
                      .optimizer = job.training.optimizer,
                      .replicas = job.layout.replicas_per_worker,
                      .precision = job.training.precision,
                      .per_token_loss = job.training.per_token_loss,
                      .same_bits = !job.devices.nondeterministic,
                      .recompute = job.recompute,
                      .sequence_parallel = job.layout.sequence_parallel,
                      .distributed_optimizer = job.reduction.distributed_optimizer,
                      .bucket_size = job.reduction.bucket_size,
                      .grain = job.reduction.grain,
                      .keeps_previous = job.recovery.on,
                      .compared = job.training.batch.data_parallel > job.layout.replicas_per_worker,
                      .verifies = job.recovery.verify_fraction > 0};
  for (const auto& hosted : pipeline.schedule->hosted_by(rank))
    out.chunks.push_back({hosted.chunk, pipeline.chunks[value(hosted.chunk)], hosted.copy});
  const auto all = pipeline.ranks_of_ties();
  for (const auto& tie : pipeline.ties)
    for (int copy = 0; copy < pipeline.schedule->copies(); ++copy) {
      auto& holders = out.holders_of_ties[{tie.owner, copy_id(std::uint32_t(copy))}];
      for (const int holder : pipeline.ranks_of(tie, copy_id(std::uint32_t(copy))))
        holders.push_back(int(std::find(all.begin(), all.end(), holder) - all.begin()));
    }
  return out;
}

}  // namespace troupe::runtime
