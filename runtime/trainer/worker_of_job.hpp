// The settings of a worker, from the job that it belongs to.

#pragma once

#include "runtime/job/pipeline.hpp"
#include "runtime/trainer/worker.hpp"

namespace troupe::runtime {

/// The settings for the worker of a pipeline rank.
worker_settings settings_of(const training_job& job, const job_pipeline& pipeline, int rank);

}  // namespace troupe::runtime
