#include "runtime/trainer/worker_of_job.hpp"

namespace troupe::runtime {

worker_settings settings_of(const training_job& job, const job_pipeline& pipeline, int rank) {
  worker_settings out{.model = spec_of(job.training),
                      .seed = job.training.seed,
                      .optimizer = job.training.optimizer,
                      .replicas = job.layout.replicas_per_worker,
                      .expert_sums = job.layout.expert_sums,
                      .precision = job.training.precision,
                      .per_token_loss = job.training.per_token_loss,
                      .same_bits = !job.devices.nondeterministic,
                      .gathers_rows = job.layout.dispatcher == token_dispatcher::allgather,
                      .choices = job.training.expert_choices,
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
  return out;
}

void join(worker_groups& to, const seat_group& group, communicator& by) {
  for (const auto& [tie, holders] : group.ties)
    to.of_tie[tie] = {&by, holders};
  if (group.of_losses)
    (group.chunk ? to.replicas_of_chunk[*group.chunk] : to.replicas) = &by;
  else if (group.ties.empty())
    (group.chunk ? to.of_chunk[*group.chunk] : to.along)[group.along] = &by;
}

}  // namespace troupe::runtime
