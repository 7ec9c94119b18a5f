// The run's folder after succession of the supervisor's process.

#include "actors/job/going_on.hpp"

#include "actors/job/described_job.hpp"
#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "runtime/process/run_succession.hpp"
#include "tests/support/deterministic.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <string>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

runtime::step_report step(std::uint64_t iteration) {
  return {.iteration = iteration, .consumed_samples = 8 * iteration};
}

/// A run with committed and logged steps, but without its process.
struct left_run {
  tests::scratch_folder above;
  runtime::training_job job = tests::tiny_job(1, 2);
  std::filesystem::path folder = above / "run", log = above / "log.jsonl", csv = above / "log.csv";

  explicit left_run(std::uint64_t steps) {
    job.recovery.on = true;
    job.watch.log_file = log;
    job.watch.csv_file = csv;
    const auto prepared = tests::without_threads(job);
    const runtime::held_run_folder run(folder, "troupe 1", {});
    runtime::write_description(run, actors::text_of(prepared->description));
    runtime::step_ledger ledger;
    ledger.write_down(run.ledger());
    ledger.by(0)->begin({});
    for (std::uint64_t n = 1; n <= steps; ++n) {
      ledger.by(0)->commit(
          {.at = {.iteration = n, .consumed = 8 * n}, .state = {n, n}, .parts = {}});
      ledger.by(0)->tell(step(n));
      if (n % 2 == 0)
        ledger.by(0)->tell(runtime::validation_report{.iteration = n});
    }
  }
  void write(std::uint64_t lines_of_log, std::uint64_t rows_of_csv) const {
    std::string json, table = "iteration,loss\n";
    for (std::uint64_t n = 1; n <= lines_of_log; ++n)
      json += fmt::format("{{\"iteration\":{},\"lm_loss\":1}}\n", n);
    for (std::uint64_t n = 1; n <= rows_of_csv; ++n)
      table += fmt::format("{},1\n", n);
    runtime::write_text(log, json);
    runtime::write_text(csv, table);
  }
  std::shared_ptr<actors::prepared_job> go_on() const {
    const auto held = runtime::held_run_folder::to_go_on(folder, std::chrono::seconds(10));
    return actors::prepare_to_go_on(*held);
  }
};

std::int64_t lines_of(const std::filesystem::path& file) {
  const auto text = runtime::read_text(file);
  return std::count(text.begin(), text.end(), '\n');
}

}  // namespace

TEST_CASE("SUCCESSION-3: logs are cut after the newest iteration that is complete in each",
          "[actors]") {
  const left_run left(10);
  left.write(8, 9);
  const auto prepared = left.go_on();
  REQUIRE(prepared->node->written);
  CHECK(prepared->node->written->iteration == 7);
  CHECK(prepared->node->written->consumed == 56);
  CHECK(prepared->node->written->fact == 7 + 3);  // validations after 2, 4 and 6
  CHECK(lines_of(left.log) == 7);
  CHECK(lines_of(left.csv) == 1 + 7);
  CHECK(prepared->node->ledger->newest() == 10);
  CHECK(prepared->node->ledger->is_written_down());
}

TEST_CASE("SUCCESSION-3: the last iteration is written again, even if all logs have it",
          "[actors]") {
  const left_run left(10);
  left.write(10, 10);
  const auto prepared = left.go_on();
  CHECK(prepared->node->written->iteration == 9);
  CHECK(lines_of(left.log) == 9);
}

TEST_CASE("SUCCESSION-3: an empty log is written from the beginning", "[actors]") {
  const left_run left(10);
  left.write(0, 10);
  const auto prepared = left.go_on();
  CHECK(prepared->node->written->fact == 0);
  CHECK(prepared->node->written->iteration == 0);
  CHECK(lines_of(left.csv) == 1);
}

TEST_CASE("a run without a step or without a log entry continues from its start", "[actors]") {
  const left_run left(0);
  const auto prepared = left.go_on();
  CHECK(prepared->node->written->fact == 0);
  CHECK(prepared->node->written->iteration == 0);
  CHECK(prepared->description.iteration == 0);
}

TEST_CASE("the description of a job survives with paths of any bytes", "[actors]") {
  messages::job_description x{.settings = R"({"a":1})",
                              .identity = R"({"b":2})",
                              .iteration = 7,
                              .consumed = 56,
                              .start = "folder \xff of bytes",
                              .with_moments = true,
                              .save = "/save",
                              .skipped = {1, 2, 3, 4},
                              .scale = {65536, 1, 2, 3},
                              .validates = true,
                              .tests = true,
                              .matrix_rate = 1.25e12,
                              .viewers = {"viewer 1"}};
  const auto text = actors::text_of(x);
  CHECK(actors::read_job_description(text, "it") == x);
  for (const auto* const member : {"settings", "iteration", "scale", "matrix_rate", "viewers"}) {
    INFO(member);
    auto other = text;
    other.replace(other.find(member), 1, "X");
    CHECK_THROWS_MATCHES(actors::read_job_description(other, "it"),
                         runtime::input_error,
                         MessageMatches(ContainsSubstring(member)));
  }
}

TEST_CASE("a missing description is an error that says that the run cannot continue", "[actors]") {
  const left_run left(1);
  std::filesystem::remove(left.folder / "description.json");
  CHECK_THROWS_MATCHES(
      left.go_on(), runtime::input_error, MessageMatches(ContainsSubstring("start the run again")));
}
