// The jobs that a simulation runs: a GPT of few and narrow layers for a few steps, in one of many
// shapes.

#pragma once

#include "actors/job/prepare.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <string>

namespace troupe::actors::simulation {

/// How many shapes there are; a seed draws one of them, so that each is computed undisturbed once.
constexpr std::uint64_t job_shapes = 64;

/// The job of that shape: layout, schedule, type, how it sums, saves and validates. It saves to
/// this folder if it saves at all. Who dies is replaced, or ends it.
/// In so many processes at most.
runtime::training_job small_job(std::uint64_t shape,
                                const std::filesystem::path& folder,
                                bool recovers = false,
                                int processes = 1);
std::string describe_shape(const runtime::training_job& job);

/// Made-up tokens, a function of their place; takes down which samples were asked for.
class made_up_samples final : public runtime::batch_source {
 public:
  made_up_samples(const runtime::recipe& recipe, bool masked) : recipe_(recipe), masked_(masked) {}

  runtime::micro_batch microbatch(const runtime::microbatch_address& at) const override;
  /// Since the last call.
  std::set<std::uint64_t> take_asked() const;

 private:
  std::int32_t token(std::uint64_t sample, std::int64_t t) const;

  runtime::recipe recipe_;
  bool masked_;
  mutable runtime::memory_pool pool_;
  mutable std::mutex mutex_;
  mutable std::set<std::uint64_t> asked_;
};

/// Ready to be started in a process, but for what a virtual process adds.
struct small_prepared {
  prepared_job job;
  std::shared_ptr<made_up_samples> training;
};
small_prepared prepare_small(const runtime::training_job& job);

}  // namespace troupe::actors::simulation
