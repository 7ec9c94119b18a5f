// Attention within documents, in every layout.

#include "tests/support/documents.hpp"

#include "tests/matrix/tolerance.hpp"
#include "tests/support/saved_job.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <cmath>

using namespace troupe;

namespace {

std::vector<runtime::step_report> documents_by_reference(const runtime::training_job& job) {
  runtime::stream stream(job.backend, job.threads_per_worker, {});
  runtime::reference_trainer trainer(
      job.training, std::make_shared<tests::documents_source>(job.training), stream);
  std::vector<runtime::step_report> out;
  for (std::uint64_t i = 0; i < job.train_iterations; ++i)
    out.push_back(trainer.step());
  return out;
}

std::map<int, nlohmann::json> documents_by_actors(runtime::training_job job) {
  const tests::scratch_folder folder;
  job.watch.log_file = folder / "log.jsonl";
  const auto prepared = tests::tiny_prepared(job);
  prepared->node->training = std::make_shared<tests::documents_source>(job.training);
  const auto end = actors::run(prepared);
  CHECK(end.reason == "");
  CHECK(prepared->node->transport->leased() == 0);
  return tests::steps_in(folder / "log.jsonl");
}

}  // namespace

TEST_CASE("with attention within documents actors give the bits of the reference trainer",
          "[scenario][unsanitized]") {
  const int P = GENERATE(1, 2, 4), D = GENERATE(1, 2);
  const bool wired = GENERATE(false, true);
  CAPTURE(P, D, wired);
  auto job = tests::tiny_job(P, D);
  if (wired)
    job.transport = runtime::transports::ucx;
  const auto seen = documents_by_actors(job);
  const auto expected = documents_by_reference(job);
  REQUIRE(seen.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(seen.at(int(i) + 1)["state_digest"] == to_string(expected[i].state));
  CHECK(expected.front().loss != tests::by_reference_trainer(job).front().loss);
}

TEST_CASE("with attention within documents tensor ranks compute the same step", "[scenario]") {
  const int P = GENERATE(1, 2);
  const bool sequence_parallel = GENERATE(false, true);
  const auto recompute = GENERATE(false, true);
  CAPTURE(P, sequence_parallel, recompute);
  auto job = tests::tiny_job(P, 1, 2);
  job.train_iterations = 1;
  job.layout.sequence_parallel = sequence_parallel;
  if (recompute)
    job.recompute = {.granularity = runtime::recompute_granularity::full, .layers = 1};
  const auto expected = documents_by_reference(job);
  const auto seen = documents_by_actors(job);
  const auto allowed = matrix::tolerance_of(job);
  const auto loss = seen.at(1)["lm_loss"].get<double>(),
             norm = seen.at(1)["grad_norm"].get<double>();
  CHECK(std::abs(loss - expected[0].loss) <= allowed.loss * expected[0].loss);
  CHECK(std::abs(norm - expected[0].grad_norm) <= allowed.norm * expected[0].grad_norm);
}
