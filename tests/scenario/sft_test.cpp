// Fine-tuning on conversations, in every layout: micro-batches with few, many and no answers.

#include "actors/job/start.hpp"
#include "runtime/data/batch_source.hpp"
#include "runtime/data/indexed_dataset_builder.hpp"
#include "runtime/data/sft_dataset.hpp"
#include "tests/matrix/tolerance.hpp"
#include "tests/support/saved_job.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <cmath>

using namespace troupe;

namespace {

/// 90 conversations of 2 to 19 tokens; those whose number 5 divides have their answer beyond what a
/// sample of 16 tokens keeps.
void write_short_talks(const std::filesystem::path& prefix, std::int64_t vocabulary) {
  runtime::indexed_dataset_builder tokens(prefix, vocabulary);
  runtime::indexed_dataset_builder answers(runtime::answers_prefix(prefix), 1 << 20);
  for (std::int32_t i = 0; i < 90; ++i) {
    const bool late = i % 5 == 0;
    const std::int32_t n = late ? 19 : 2 + i * 7 % 15, begin = late ? 17 : n / 2;
    std::vector<std::int32_t> ids;
    for (std::int32_t t = 0; t < n; ++t)
      ids.push_back((i * 11 + t * (i % 3 + 1)) % std::int32_t(vocabulary));
    const std::vector<std::int32_t> ends = {begin, n};
    tokens.add_sequence(ids);
    tokens.end_document();
    answers.add_sequence(ends);
    answers.end_document();
  }
  answers.finish();
  tokens.finish();
}

class talks_job {
 public:
  explicit talks_job(const runtime::training_job& job) : job_(job) {
    write_short_talks(folder_ / "talks", job.training.model.vocabulary);
  }

  std::shared_ptr<const runtime::batch_source> source() const {
    const auto& training = job_.training;
    return std::make_shared<runtime::dataset_source>(
        std::make_shared<runtime::sft_dataset>(
            std::make_shared<runtime::conversation_source>(folder_ / "talks"),
            runtime::split_matrix("1,0,0"),
            runtime::data_split::train,
            runtime::sft_dataset_options{.sequence_length = training.model.sequence,
                                         .samples = 200,
                                         .seed = 7,
                                         .vocabulary = training.model.vocabulary}),
        runtime::batch_layout{std::uint64_t(training.batch.micro),
                              std::uint64_t(training.batch.data_parallel)},
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

  /// Until `until`, from the newest checkpoint if there is one.
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

 private:
  tests::scratch_folder folder_;
  runtime::training_job job_;
};

}  // namespace

TEST_CASE("on conversations actors give the bits of the reference trainer", "[scenario]") {
  const int P = GENERATE(1, 2), D = GENERATE(1, 2);
  CAPTURE(P, D);
  const talks_job job(tests::tiny_job(P, D));
  const auto expected = job.by_reference();
  const auto seen = job.by_actors();
  REQUIRE(seen.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(seen.at(int(i) + 1)["state_digest"] == to_string(expected[i].state));
}

TEST_CASE("on conversations tensor ranks come to the same step", "[scenario]") {
  const bool sequence_parallel = GENERATE(false, true);
  auto what = tests::tiny_job(1, 1, 2);
  what.train_iterations = 1;
  what.layout.sequence_parallel = sequence_parallel;
  const talks_job job(what);
  const auto expected = job.by_reference();
  const auto seen = job.by_actors();
  const auto allowed = matrix::tolerance_of(what);
  CHECK(std::abs(seen.at(1)["lm_loss"].get<double>() - expected[0].lm_loss)
        <= allowed.loss * expected[0].lm_loss);
  CHECK(std::abs(seen.at(1)["grad_norm"].get<double>() - expected[0].grad_norm)
        <= allowed.norm * expected[0].grad_norm);
}

TEST_CASE("fine-tuning that was stopped and resumed is the one that was not", "[scenario]") {
  const talks_job whole(tests::tiny_job(2, 2)), parts(tests::tiny_job(2, 2));
  const auto expected = whole.by_actors();
  parts.by_actors(5);
  const auto seen = parts.by_actors(12);
  REQUIRE(expected.size() == 12);
  REQUIRE(seen.size() == 12);
  for (const auto& [iteration, step] : expected)
    CHECK(seen.at(iteration)["state_digest"] == step["state_digest"]);
}

TEST_CASE("a micro-batch without an answer adds nothing to the step", "[scenario]") {
  auto what = tests::tiny_job(1, 1);
  what.training.batch = {.micro = 1, .global = 8, .data_parallel = 1};
  const talks_job job(what);
  const auto source = job.source();
  int empty = 0;
  for (std::uint64_t m = 0; m < 8; ++m) {
    const auto x = source->microbatch({.microbatch = m});
    const auto* const mask = x.mask.data<float>();
    empty += std::all_of(mask, mask + x.mask.size(), [](float v) { return v == 0; }) ? 1 : 0;
  }
  CHECK(empty > 0);
  for (const auto& step : job.by_reference()) {
    CHECK(std::isfinite(step.lm_loss));
    CHECK(std::isfinite(step.grad_norm));
  }
}
