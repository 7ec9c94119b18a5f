// The settings and groups of a worker, from the job that it belongs to.

#pragma once

#include "runtime/job/job_seats.hpp"
#include "runtime/trainer/worker.hpp"

namespace troupe::runtime {

/// The settings for the worker of a pipeline rank.
worker_settings settings_of(const training_job& job, const job_pipeline& pipeline, int rank);

/// Adds a group of the worker's rank.
void join(worker_groups& to, const seat_group& group, communicator& by);

}  // namespace troupe::runtime
