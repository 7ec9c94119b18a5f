// Jobs for simulations: a tiny model, trained for a few steps, in one of many shapes.

#pragma once

#include "actors/job/prepare.hpp"
#include "runtime/family/families.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <string>

namespace troupe::actors::simulation {

/// Number of shapes. A seed draws one, so the undisturbed run of each is computed once.
constexpr std::uint64_t job_shapes = 64;
/// Number of the first shape of a model with experts. There are `job_shapes` of them. They equal
/// the shapes before if the family has no such model (model_family::smallest_with_experts).
constexpr std::uint64_t expert_shapes = job_shapes;

/// The job of a shape: layout, schedule, data type, reductions, saving and validation. If it saves,
/// it saves to `folder`. `processes` is an upper bound.
runtime::training_job small_job(std::uint64_t shape,
                                const std::filesystem::path& folder,
                                bool recovers = false,
                                int processes = 1,
                                const runtime::model_family& of = runtime::default_family());
std::string describe_shape(const runtime::training_job& job);

/// The made-up samples of the model's family, or synthetic tokens, a function of their position.
/// Records which samples were requested.
class made_up_samples final : public runtime::batch_source {
 public:
  /// Without samples of the family, every fifth token of `part` train is masked.
  made_up_samples(const runtime::recipe& recipe, runtime::data_split part);

  runtime::bundle microbatch(const runtime::microbatch_address& at) const override;
  /// Samples requested since the last call.
  std::set<std::uint64_t> take_asked() const;

 private:
  runtime::bundle tokens(const runtime::microbatch_address& at) const;
  std::int32_t token(std::uint64_t sample, std::int64_t t) const;

  runtime::recipe recipe_;
  bool masked_;
  std::shared_ptr<const runtime::batch_source> own_;  ///< of the family; null: tokens
  mutable runtime::memory_pool pool_;
  mutable std::mutex mutex_;
  mutable std::set<std::uint64_t> asked_;
};

/// A prepared job without the parts that a virtual process adds.
struct small_prepared {
  prepared_job job;
  std::shared_ptr<made_up_samples> training;
};
small_prepared prepare_small(const runtime::training_job& job);

}  // namespace troupe::actors::simulation
