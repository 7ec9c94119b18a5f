// Training to fill in the middle, in every layout: what a sample becomes depends on no worker.

#include "actors/job/start.hpp"
#include "runtime/data/batch_source.hpp"
#include "runtime/data/gpt_dataset.hpp"
#include "runtime/data/indexed_dataset_builder.hpp"
#include "tests/matrix/tolerance.hpp"
#include "tests/support/byte_tokenizer.hpp"
#include "tests/support/saved_job.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <cmath>

using namespace troupe;

namespace {

constexpr std::int32_t eod = 258;

std::shared_ptr<const runtime::fill_in_middle> cutter() {
  runtime::fim_settings settings;
  settings.rate = 0.8;
  return std::make_shared<runtime::fill_in_middle>(
      settings,
      std::make_shared<tests::byte_tokenizer>(
          "th",
          std::vector<std::string>{
              "<|endoftext|>", "<fim-prefix>", "<fim-middle>", "<fim-suffix>", "<fim-pad>"}),
      5);
}

runtime::training_job tiny_bytes_job(int pipeline, int data, int tensor = 1) {
  auto job = tests::tiny_job(pipeline, data, tensor);
  job.training.model.vocabulary = 263;
  job.training.model.padded_vocabulary = 384;
  return job;
}

/// Documents of text, some of them empty: then padding fills a sample up.
class cut_text_job {
 public:
  explicit cut_text_job(const runtime::training_job& job) : job_(job) {
    runtime::indexed_dataset_builder tokens(folder_ / "text", job.training.model.vocabulary);
    const tests::byte_tokenizer by("th");
    for (int i = 0; i < 90; ++i) {
      auto ids = by.encode(std::string("the path, the other path").substr(0, std::size_t(i % 25)));
      ids.push_back(eod);
      tokens.add_sequence(ids);
      tokens.end_document();
    }
    tokens.finish();
  }

  std::shared_ptr<const runtime::batch_source> source(bool cut = true) const {
    const auto& training = job_.training;
    return std::make_shared<runtime::dataset_source>(
        std::make_shared<runtime::gpt_dataset>(
            std::make_shared<runtime::indexed_dataset>(folder_ / "text"),
            runtime::split_matrix("1,0,0"),
            runtime::data_split::train,
            runtime::gpt_dataset_options{.sequence_length = training.model.sequence,
                                         .samples = 200,
                                         .seed = 7,
                                         .vocabulary = training.model.vocabulary,
                                         .end_of_document = eod,
                                         .fim = cut ? cutter() : nullptr}),
        runtime::batch_layout{std::uint64_t(training.batch.micro),
                              std::uint64_t(training.batch.data_parallel)},
        runtime::memory_pool());
  }

  std::vector<runtime::step_report> by_reference(bool cut = true) const {
    runtime::stream stream(job_.backend, job_.threads_per_worker, {});
    runtime::reference_trainer trainer(job_.training, source(cut), stream);
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

TEST_CASE("with a middle to fill in actors give the bits of the reference trainer", "[scenario]") {
  const int P = GENERATE(1, 2), D = GENERATE(1, 2);
  CAPTURE(P, D);
  const cut_text_job job(tiny_bytes_job(P, D));
  const auto expected = job.by_reference();
  const auto seen = job.by_actors();
  REQUIRE(seen.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(seen.at(int(i) + 1)["state_digest"] == to_string(expected[i].state));
  CHECK(expected.back().state != job.by_reference(false).back().state);
}

TEST_CASE("with a middle to fill in tensor ranks come to the same step", "[scenario]") {
  auto what = tiny_bytes_job(1, 1, 2);
  what.train_iterations = 1;
  const cut_text_job job(what);
  const auto expected = job.by_reference();
  const auto seen = job.by_actors();
  const auto allowed = matrix::tolerance_of(what);
  CHECK(std::abs(seen.at(1)["lm_loss"].get<double>() - expected[0].lm_loss)
        <= allowed.loss * expected[0].lm_loss);
  CHECK(std::abs(seen.at(1)["grad_norm"].get<double>() - expected[0].grad_norm)
        <= allowed.norm * expected[0].grad_norm);
}

TEST_CASE("with a middle to fill in a run that was stopped and resumed is the one that was not",
          "[scenario]") {
  const cut_text_job whole(tiny_bytes_job(2, 2)), parts(tiny_bytes_job(2, 2));
  const auto expected = whole.by_actors();
  parts.by_actors(5);
  const auto seen = parts.by_actors(12);
  REQUIRE(expected.size() == 12);
  REQUIRE(seen.size() == 12);
  for (const auto& [iteration, step] : expected)
    CHECK(seen.at(iteration)["state_digest"] == step["state_digest"]);
}
