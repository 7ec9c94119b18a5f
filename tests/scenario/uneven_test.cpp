// Jobs of actors with different pipeline stages, compared with the reference trainer.

#include "runtime/model/stages.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <fstream>
#include <nlohmann/json.hpp>

using namespace troupe;
using json = nlohmann::json;

TEST_CASE("stages of any shape, and empty ones, give the bits of the reference trainer",
          "[scenario]") {
  const auto [text, stages] = GENERATE(std::pair("Et*4|L", 2),
                                       std::pair("Et|t*3L", 2),
                                       std::pair("E||t*4|L", 4),
                                       std::pair("Et||t*2|tL", 4));
  CAPTURE(text);
  const tests::scratch_folder folder;
  auto job = tests::tiny_job(stages, 2);
  job.layout.chunks = runtime::stages_from_text(text, letters_of(job.training), stages);
  job.train_iterations = 10;
  job.watch.log_file = folder / "log.jsonl";
  const auto prepared = tests::tiny_prepared(job);
  const auto end = actors::run(prepared);
  CHECK(end.reason == "");
  REQUIRE(end.exit_code == 0);

  const auto expected = tests::by_reference_trainer(job);
  std::ifstream log(folder / "log.jsonl");
  std::size_t seen = 0;
  for (std::string line; std::getline(log, line); ++seen) {
    REQUIRE(seen < expected.size());
    const auto record = json::parse(line);
    CHECK(record["state_digest"] == to_string(expected[seen].state));
    CHECK(record["lm_loss"] == expected[seen].loss);
    CHECK(record["grad_norm"] == expected[seen].grad_norm);
  }
  CHECK(seen == expected.size());
}
