// A run that was stopped and resumed is the run that was not.

#include "runtime/checkpoint/checkpoint.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

using namespace troupe;
using json = nlohmann::json;

namespace {

std::map<int, std::string> digests_in(const std::filesystem::path& log) {
  std::map<int, std::string> out;
  std::ifstream in(log);
  for (std::string line; std::getline(in, line);) {
    const auto record = json::parse(line);
    if (record.contains("state_digest"))
      out[record["iteration"]] = record["state_digest"];
  }
  return out;
}

/// Runs until `until`, from the newest checkpoint if there is one.
void run(runtime::training_job job, std::uint64_t until, const std::filesystem::path& folder) {
  job.exit_interval = until;
  job.checkpoints.save = folder / "checkpoints";
  job.watch.log_file = folder / "log.jsonl";
  std::filesystem::create_directories(job.checkpoints.save);
  const auto shared = tests::tiny_resources(job);
  const auto found = runtime::latest_checkpoint(job.checkpoints.save);
  if (found.folder) {
    const auto from = std::make_shared<runtime::checkpoint_reader>(*found.folder);
    shared->first_iteration = std::uint64_t(from->manifest().iteration);
    shared->first_consumed = std::uint64_t(from->manifest().consumed_samples);
    shared->restore = [from](runtime::worker& by) {
      by.restore(
          [&](const std::string& name,
              const runtime::shape&,
              const runtime::box& part,
              std::span<float> to) { from->read(name, part, to); },
          true);
    };
  }
  const auto end = actors::run(shared);
  CHECK(end.reason == "");
  REQUIRE(end.exit_code == 0);
}

}  // namespace

TEST_CASE("resuming gives the digests of the run that was not stopped", "[scenario]") {
  const int P = GENERATE(1, 2), D = GENERATE(1, 2);
  const bool tied = GENERATE(true, false);
  CAPTURE(P, D, tied);
  auto job = tests::tiny_job(P, D);
  job.how.model.tied_embeddings = tied;
  const tests::scratch_folder whole, parts;
  run(job, 12, whole.path());
  run(job, 5, parts.path());
  run(job, 12, parts.path());
  const auto expected = digests_in(whole / "log.jsonl"), seen = digests_in(parts / "log.jsonl");
  REQUIRE(expected.size() == 12);
  CHECK(seen == expected);
}

TEST_CASE("a checkpoint of one layout goes on under another", "[scenario]") {
  const int P = GENERATE(1, 4);
  CAPTURE(P);
  const tests::scratch_folder whole, parts;
  run(tests::tiny_job(2, 2), 6, whole.path());
  run(tests::tiny_job(2, 2), 5, parts.path());
  run(tests::tiny_job(P, 2), 6, parts.path());
  // The pipeline is no part of any sum, so that even the bits are those of the other layout.
  CHECK(digests_in(parts / "log.jsonl") == digests_in(whole / "log.jsonl"));
}

TEST_CASE("only the newest checkpoints are kept, and what cannot be removed ends no run",
          "[scenario]") {
  auto job = tests::tiny_job(1, 1);
  job.checkpoints.save_interval = 2;
  job.checkpoints.keep_last = 1;
  const tests::scratch_folder good, bad;
  run(job, 6, good.path());
  CHECK(std::filesystem::exists(good / "checkpoints/iter_0000006"));
  CHECK_FALSE(std::filesystem::exists(good / "checkpoints/iter_0000004"));
  // In the way of the name that a checkpoint has while it is removed.
  std::filesystem::create_directories(bad / "checkpoints/.iter_0000002.removed/x");
  run(job, 6, bad.path());
  CHECK(std::filesystem::exists(bad / "checkpoints/iter_0000006"));
  CHECK(std::filesystem::exists(bad / "checkpoints/iter_0000002"));
}
