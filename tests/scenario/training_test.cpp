// Whole jobs of actors against the reference trainer.

#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using json = nlohmann::json;

namespace {

std::vector<json> lines_of(const std::filesystem::path& path) {
  std::vector<json> out;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    out.push_back(json::parse(line));
  return out;
}

}  // namespace

TEST_CASE("every arrangement of actors gives the bits of the reference trainer", "[scenario]") {
  const int P = GENERATE(1, 2, 4), D = GENERATE(1, 2);
  const bool disturbed = GENERATE(false, true);
  CAPTURE(P, D, disturbed);
  const tests::scratch_folder folder;
  auto job = tests::tiny_job(P, D);
  job.train_iterations = 50;
  job.watch.log_file = folder / "log.jsonl";
  if (disturbed)
    job.disturbance = {.seed = 7, .lane_delay_us = 300, .message_delay_us = 300};
  const auto shared = tests::tiny_resources(job);
  const auto end = actors::run(shared);
  CHECK(end.reason == "");
  REQUIRE(end.exit_code == 0);

  const auto expected = tests::by_reference_trainer(job);
  const auto seen = lines_of(folder / "log.jsonl");
  REQUIRE(seen.size() == expected.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    CHECK(seen[i]["iteration"] == i + 1);
    CHECK(seen[i]["state_digest"] == to_string(expected[i].state));
    CHECK(seen[i]["lm_loss"] == expected[i].lm_loss);
    CHECK(seen[i]["grad_norm"] == expected[i].grad_norm);
  }
  CHECK(expected.back().lm_loss < 0.8 * expected.front().lm_loss);
  CHECK(shared->transport->counters().bytes_copied == 0);
  CHECK(shared->transport->leased() == 0);
}

TEST_CASE("validation by actors is validation by the reference trainer, and changes nothing",
          "[scenario]") {
  const int P = GENERATE(1, 2), D = GENERATE(1, 2);
  CAPTURE(P, D);
  const tests::scratch_folder folder;
  auto job = tests::tiny_job(P, D);
  job.train_iterations = 6;
  job.watch.eval_interval = 4;
  job.watch.eval_batches = 3;
  job.watch.log_file = folder / "log.jsonl";
  job.disturbance = {.seed = 5, .lane_delay_us = 200, .message_delay_us = 200};
  REQUIRE(actors::run(tests::tiny_resources(job)).exit_code == 0);

  runtime::stream on(job.backend, job.threads_per_worker, {});
  runtime::reference_trainer trainer(
      job.how, std::make_shared<tests::formula_source>(job.how, true), on);
  std::vector<json> expected;
  for (int i = 1; i <= 6; ++i) {
    expected.push_back({{"iteration", i}, {"state_digest", to_string(trainer.step().state)}});
    if (i == 4)
      expected.push_back(
          {{"iteration", 4},
           {"validation_loss", trainer.evaluate(tests::formula_source(job.how, false), 3)}});
  }
  auto seen = lines_of(folder / "log.jsonl");
  REQUIRE(seen.size() == expected.size() + 1);  // and the validation at the end
  CHECK(seen.back().contains("validation_loss"));
  for (std::size_t i = 0; i < expected.size(); ++i)
    for (const auto& [key, value] : expected[i].items())
      if (key == "validation_loss")  // rounds add up in another order
        CHECK(std::abs(seen[i][key].get<double>() - value.get<double>()) < 1e-12);
      else
        CHECK(seen[i][key] == value);
}
