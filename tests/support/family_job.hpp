// Tiny jobs of model families (families.hpp), on any stages.

#pragma once

#include "tests/support/experts_job.hpp"
#include "tests/support/families.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace troupe::tests {

/// Cuts a model's units before each of these.
inline std::vector<runtime::chunk_range> cut_before(const runtime::model_description& model,
                                                    const std::vector<std::int64_t>& cuts) {
  std::vector<runtime::chunk_range> out(1);
  for (const auto cut : cuts) {
    out.back().end = cut;
    out.push_back({cut, cut});
  }
  out.back().end = std::int64_t(model.spec().units.size());
  return out;
}

inline bool has_experts(const runtime::model_description& model) {
  return !model.family().shared_by_expert_ranks(model).empty();
}

/// A job of the family's smallest model, one stage for each pipeline rank. Its buckets and grains
/// are small beside the model. Without experts, `of_experts` has no effect.
inline runtime::training_job family_job(const runtime::model_family& of,
                                        const std::vector<std::int64_t>& cuts,
                                        int data = 1,
                                        int tensor = 1,
                                        const expert_ranks& of_experts = {}) {
  auto job = tiny_job(int(cuts.size()) + 1, data, tensor);
  job.training.model = of.smallest(3);
  if (has_experts(job.training.model))
    share_experts(job, of_experts);
  job.layout.chunks = cut_before(job.training.model, cuts);
  job.reduction.bucket_size = 256;
  job.reduction.grain = 16;
  job.data.mock = true;
  return job;
}

/// The same with all stages on `ranks` pipeline ranks, by a schedule of this name.
inline runtime::training_job scheduled_job(const runtime::model_family& of,
                                           const std::string& schedule,
                                           int ranks,
                                           const std::vector<std::int64_t>& cuts,
                                           int data = 1) {
  auto job = family_job(of, cuts, data);
  job.layout.pipeline = ranks;
  job.layout.world = ranks * data;
  job.layout.schedule.source = schedule;
  return job;
}

}  // namespace troupe::tests
