// Trains a tiny job on the samples of a data set, by actors and by the reference trainer, and
// compares the bits of each step.

#pragma once

#include "actors/job/start.hpp"
#include "runtime/data/batch_source.hpp"
#include "tests/matrix/tolerance.hpp"
#include "tests/support/saved_job.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>

namespace troupe::tests {

class sampled_job {
 public:
  explicit sampled_job(const runtime::training_job& job) : job_(job) {}
  sampled_job(const sampled_job&) = delete;
  sampled_job& operator=(const sampled_job&) = delete;
  virtual ~sampled_job() = default;

  const runtime::training_job& job() const { return job_; }

  std::shared_ptr<const runtime::batch_source> source() const {
    const auto& batch = job_.training.batch;
    return std::make_shared<runtime::dataset_source>(
        samples(),
        runtime::batch_layout{std::uint64_t(batch.micro), std::uint64_t(batch.data_parallel)},
        runtime::memory_pool());
  }

  std::vector<runtime::step_report> by_reference() const {
    runtime::stream stream(job_.backend, job_.threads_per_worker, {});
    runtime::reference_trainer trainer(job_.training, source(), stream);
    std::vector<runtime::step_report> out;
    for (std::uint64_t i = 0; i < job_.train_iterations; ++i)
      out.push_back(trainer.step());
    return out;
  }

  /// Runs until iteration `until`, from the newest checkpoint if there is one. With 0, runs the
  /// whole job without saving.
  std::map<int, nlohmann::json> by_actors(std::uint64_t until = 0) const {
    auto job = job_;
    job.exit_interval = until;
    job.watch.log_file = folder_ / "log.jsonl";
    if (until > 0) {
      job.checkpoints.save = folder_ / "checkpoints";
      std::filesystem::create_directories(job.checkpoints.save);
    }
    const auto found = until > 0 ? runtime::latest_checkpoint(job.checkpoints.save)
                                 : runtime::found_checkpoint();
    const auto prepared
        = found.folder ? tests::going_on(job, *found.folder) : tests::tiny_prepared(job);
    prepared->node->training = source();
    CHECK(actors::run(prepared).reason == "");
    return tests::steps_in(folder_ / "log.jsonl");
  }

 protected:
  virtual std::shared_ptr<const runtime::sample_dataset> samples() const = 0;
  const scratch_folder& folder() const { return folder_; }

 private:
  scratch_folder folder_;
  runtime::training_job job_;
};

/// Actors produce the bits of the reference trainer in each step.
inline void check_bits(const sampled_job& job) {
  const auto expected = job.by_reference();
  const auto seen = job.by_actors();
  REQUIRE(seen.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(seen.at(int(i) + 1)["state_digest"] == to_string(expected[i].state));
}

/// Tensor ranks reproduce the reference trainer's first step, up to rounding.
inline void check_first_step(const sampled_job& job) {
  const auto expected = job.by_reference().front();
  const auto seen = job.by_actors().at(1);
  const auto allowed = matrix::tolerance_of(job.job());
  CHECK(std::abs(seen["lm_loss"].get<double>() - expected.loss) <= allowed.loss * expected.loss);
  CHECK(std::abs(seen["grad_norm"].get<double>() - expected.grad_norm)
        <= allowed.norm * expected.grad_norm);
}

/// Two equal jobs of 12 steps: stopping one after 5 steps and resuming it changes no bit.
inline void check_resumed(const sampled_job& whole, const sampled_job& parts) {
  const auto expected = whole.by_actors();
  parts.by_actors(5);
  const auto seen = parts.by_actors(12);
  REQUIRE(expected.size() == 12);
  REQUIRE(seen.size() == 12);
  for (const auto& [iteration, step] : expected)
    CHECK(seen.at(iteration)["state_digest"] == step["state_digest"]);
}

}  // namespace troupe::tests
