// Of a job: which layers each chunk of the model has, and which chunks each pipeline rank hosts.

#pragma once

#include "runtime/trainer/job.hpp"
#include "runtime/trainer/pipeline_schedule.hpp"
#include "runtime/trainer/worker.hpp"

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

namespace troupe::runtime {

struct job_pipeline {
  std::shared_ptr<const pipeline_schedule> schedule;
  std::vector<chunk_range> chunks;        ///< of the model
  std::vector<std::vector<char>> blocks;  ///< of each chunk's backward pass: see plan

  int ranks() const { return schedule->ranks(); }
  bool is_first(chunk_id c) const { return value(c) == 0; }
  bool is_last(chunk_id c) const { return value(c) + 1 == chunks.size(); }
  /// The ranks that hold the first and the last chunk of the first copy, which share a tied table.
  int first_rank() const { return schedule->rank_of(chunk_id(0)); }
  int last_rank() const { return schedule->rank_of(chunk_id(std::uint32_t(chunks.size()) - 1)); }
};

/// Micro-batches that the plan of a step has when the batch is not ramped up: of each physical
/// replica, for all that it plays.
int planned_microbatches(const training_job& job);

/// The most that a step of the run has: batches may shrink.
int most_microbatches(const training_job& job);

/// Of every step from `consumed` samples on: several where the batch is ramped up.
std::set<int> planned_microbatches(const training_job& job, std::uint64_t consumed);

/// Throws input_error as pipeline_schedule does, and when layers cannot be shared out evenly.
job_pipeline pipeline_of(const training_job& job);

/// What the worker of a pipeline rank is made of.
worker_settings settings_of(const training_job& job, const job_pipeline& pipeline, int rank);

}  // namespace troupe::runtime
