// The pipeline of a job: the units of each chunk of the model, and the chunks of each pipeline
// rank.

#pragma once

#include "runtime/job/job.hpp"
#include "runtime/job/pipeline_schedule.hpp"
#include "runtime/model/ties.hpp"

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace troupe::runtime {

struct job_pipeline {
  std::shared_ptr<const pipeline_schedule> schedule;
  std::vector<chunk_range> chunks;        ///< of the model
  std::vector<chunk_flow> flows;          ///< what each chunk exchanges
  std::vector<tie> ties;                  ///< of the model, without frozen ones
  std::vector<std::vector<char>> blocks;  ///< of each chunk's backward pass: see plan
  double sample_flops = 0;                ///< operations of a training step: see training_flops
  /// The sets of axes along which gradients of the model are summed.
  std::set<axis_set> sums;
  bool has_losses_over_replicas = false;  ///< see loss_spec
  std::set<std::string> experts = {};     ///< parameters of experts, by the name of their owner

  int ranks() const { return schedule->ranks(); }
  const chunk_flow& flow(chunk_id c) const { return flows[value(c)]; }
  /// The layers of a parameter, by the name of its owner.
  axis_view layers_of(const std::string& parameter) const {
    return experts.contains(parameter) ? axis_view::experts : axis_view::dense;
  }
  /// The pipeline rank of each use of a tied parameter, in model order.
  std::vector<int> ranks_of(const tie& x, copy_id copy = {}) const;
};

/// Micro-batches per step and physical replica, for all logical replicas that it computes, after
/// the batch ramp-up.
int planned_microbatches(const training_job& job);

/// The maximum over all steps of the run: batches may also shrink.
int most_microbatches(const training_job& job);

/// The numbers of all steps from `consumed` samples on; several during a batch ramp-up.
std::set<int> planned_microbatches(const training_job& job, std::uint64_t consumed);

/// Throws input_error as pipeline_schedule does, if the layers do not divide evenly, and for tied
/// parameters whose gradients cannot be added.
job_pipeline pipeline_of(const training_job& job);

}  // namespace troupe::runtime
