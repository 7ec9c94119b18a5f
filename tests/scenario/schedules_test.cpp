// Every schedule on a real model: the same bits, and an execution as planned.

#include "runtime/file/file.hpp"
#include "runtime/schedule/check.hpp"
#include "runtime/schedule/csv.hpp"
#include "runtime/schedule/lower.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cctype>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

using namespace troupe;
using nlohmann::json;

namespace {

runtime::training_job job_of(const std::string& schedule,
                             int pipeline,
                             int data = 1,
                             int tensor = 1) {
  auto job = tests::tiny_job(pipeline, data, tensor);
  job.training.model.as<runtime::gpt_config>().layers = 8;
  job.training.batch = {.micro = 1, .global = 8 * data, .data_parallel = data};
  job.layout.schedule.source = schedule;
  job.train_iterations = 20;
  return job;
}

struct record {
  std::string digest;
  double loss = 0, norm = 0;

  friend bool operator==(const record&, const record&) = default;
};

std::vector<record> records(const std::filesystem::path& log) {
  std::vector<record> out;
  std::ifstream file(log);
  for (std::string line; std::getline(file, line);) {
    const auto x = json::parse(line);
    out.push_back({x["state_digest"], x["lm_loss"], x["grad_norm"]});
  }
  return out;
}

/// Runs the job; returns the steps from its log.
std::vector<record> run(runtime::training_job job,
                        std::shared_ptr<actors::prepared_job>* prepared_out = nullptr) {
  const tests::scratch_folder folder;
  job.watch.log_file = folder / "log.jsonl";
  const auto prepared = tests::tiny_prepared(job);
  const auto end = actors::run(prepared);
  CHECK(end.reason == "");
  REQUIRE(end.exit_code == 0);
  if (prepared_out != nullptr)
    *prepared_out = prepared;
  return records(job.watch.log_file);
}

std::vector<record> by_reference(const runtime::training_job& job) {
  std::vector<record> out;
  for (const auto& x : tests::by_reference_trainer(job))
    out.push_back({to_string(x.state), x.loss, x.grad_norm});
  return out;
}

void check_trace_equals_plan(const actors::prepared_job& prepared) {
  std::map<std::pair<int, std::uint64_t>, std::vector<std::string>> executed;
  for (const auto& x : prepared.node->trace->spans())
    if (x.track == 0 && x.name.size() > 2
        && (std::isdigit(x.name[0]) != 0 || std::isdigit(x.name[1]) != 0))
      executed[{x.rank, runtime::value(x.step)}].push_back(x.name);
  const auto& schedule = *prepared.opened().pipeline.schedule;
  const auto plan = schedule.training(runtime::planned_microbatches(prepared.opened().job));
  CHECK(executed.size()
        == std::size_t(prepared.opened().seats.size()) * prepared.opened().job.train_iterations);
  for (const auto& [where, names] : executed) {
    const auto part = prepared.opened().seats.at(where.first)[runtime::axis::pipeline];
    std::vector<std::string> planned;
    for (const auto& x : runtime::with_split_backward(plan->ranks[std::size_t(part)]))
      planned.push_back(to_string(x, plan->copies));
    CHECK(names == planned);
  }
}

}  // namespace

TEST_CASE("single-copy schedules that add in order have the bits of the reference trainer",
          "[scenario][unsanitized]") {
  const std::string schedule = GENERATE("gpipe",
                                        "1f1b",
                                        "interleaved",
                                        "zb-h1",
                                        "izb",
                                        "zb-h2",
                                        "zb-v",
                                        "v-half",
                                        "v-min",
                                        "dualpipev",
                                        "auto");
  CAPTURE(schedule);
  auto job = job_of(schedule, schedule == "auto" ? 2 : 4);
  if (schedule == "zb-v" || schedule == "izb")
    job.faults = {.seed = 11, .lane_delay_us = 300, .message_delay_us = 300};
  std::shared_ptr<actors::prepared_job> prepared;
  const auto seen = run(job, &prepared);
  CHECK(seen.size() == 20);
  CHECK(seen == by_reference(job));
  CHECK(prepared->opened().pipeline.schedule->accumulates_in_order());
  check_trace_equals_plan(*prepared);
}

TEST_CASE("a schedule with another order of sums reports it, and has its own bits",
          "[scenario][unsanitized]") {
  const auto job = job_of("looped-bfs", 2);
  std::shared_ptr<actors::prepared_job> prepared;
  const auto seen = run(job, &prepared);
  CHECK_FALSE(prepared->opened().pipeline.schedule->accumulates_in_order());
  CHECK_FALSE(prepared->opened().pipeline.schedule->notes().empty());
  CHECK(seen == run(job));
  const auto expected = by_reference(job);
  REQUIRE(seen.size() == expected.size());
  // Sums of 8 micro-batches in another order: some units in the last place, amplified over 20
  // steps.
  for (std::size_t i = 0; i < seen.size(); ++i)
    CHECK(std::abs(seen[i].loss / expected[i].loss - 1) < 1e-4);
  check_trace_equals_plan(*prepared);
}

TEST_CASE("DualPipe's two copies give the bits of two replicas with half of the batch each",
          "[scenario][unsanitized]") {
  const bool tied = GENERATE(true, false), distributed = GENERATE(false, true);
  CAPTURE(tied, distributed);
  auto job = job_of("dualpipe", 4);
  job.training.model.as<runtime::gpt_config>().tied_embeddings = tied;
  job.reduction.distributed_optimizer = distributed;
  std::shared_ptr<actors::prepared_job> prepared;
  const auto seen = run(job, &prepared);
  check_trace_equals_plan(*prepared);
  auto two = job_of("1f1b", 4, 2);
  two.training.batch = {.micro = 1, .global = 8, .data_parallel = 2};
  two.training.model.as<runtime::gpt_config>().tied_embeddings = tied;
  CHECK(seen == run(two));
}

TEST_CASE(
    "several chunks per rank work with replicas, tensor ranks, recomputation and sharded state",
    "[scenario][unsanitized]") {
  const std::string schedule = GENERATE("interleaved", "zb-v", "izb", "dualpipev");
  CAPTURE(schedule);
  auto job = job_of(schedule, 2, 2);
  job.train_iterations = 6;
  job.reduction = {.distributed_optimizer = true,
                   .bucket_size = 3000,
                   .overlap_gradients = true,
                   .overlap_parameters = true};
  job.recompute.granularity = runtime::recompute_granularity::full;
  CHECK(run(job) == by_reference(job));
  auto wide = job_of(schedule, 2, 1, 2);
  wide.train_iterations = 6;
  auto plain = wide;
  plain.layout.schedule.source = "1f1b";
  CHECK(run(wide) == run(plain));
  auto turns = job_of(schedule, 2, 2);
  turns.train_iterations = 6;
  tests::play_in_turn(turns, 2);
  CHECK(run(turns) == by_reference(turns));
}

TEST_CASE("two copies work with replicas, tensor ranks and recomputation", "[scenario]") {
  auto job = job_of("dualpipe", 2, 2, 2);
  job.train_iterations = 6;
  job.recompute.granularity = runtime::recompute_granularity::selective;
  job.faults = {.seed = 5, .lane_delay_us = 200, .message_delay_us = 200};
  auto four = job_of("1f1b", 2, 4, 2);
  four.training.batch = {.micro = 1, .global = 16, .data_parallel = 4};
  four.train_iterations = 6;
  CHECK(run(job) == run(four));
}

TEST_CASE("a plan from a file runs, also with uneven stages and three chunks on two ranks",
          "[scenario]") {
  const tests::scratch_folder folder;
  const auto file = folder / "mine.csv";
  runtime::write_text(file,
                      "0F0,0F1,2F0,2I0,0F2,2F1,2I1,2W0,0I0,2F2,2W1,2I2,0W0,0I1,0W1,2W2,0B2\n"
                      "1F0,1F1,1F2,1I0,1W0,1B1,1B2\n");
  auto job = job_of(file.string(), 2);
  job.training.batch = {.micro = 1, .global = 3, .data_parallel = 1};
  job.layout.chunks = {{0, 6}, {6, 8}, {8, 10}};
  std::shared_ptr<actors::prepared_job> prepared;
  CHECK(run(job, &prepared) == by_reference(job));
  check_trace_equals_plan(*prepared);
  job.training.batch.global = 4;
  CHECK_THROWS_WITH(runtime::pipeline_of(job),
                    Catch::Matchers::ContainsSubstring("is a plan for 3 micro-batches, but a step "
                                                       "has 4"));
}

TEST_CASE("validation runs forward through chunks in turn, in a V, and by the first of two copies",
          "[scenario]") {
  const std::string schedule = GENERATE("1f1b", "interleaved", "zb-v", "dualpipe");
  CAPTURE(schedule);
  const tests::scratch_folder folder;
  auto job = job_of(schedule, 2);
  job.train_iterations = 1;
  job.watch.eval_interval = 1;
  job.watch.eval_batches = 2;
  job.watch.log_file = folder / "log.jsonl";
  const auto prepared = tests::tiny_prepared(job);
  REQUIRE(actors::run(prepared).exit_code == 0);
  double loss = 0;
  std::ifstream log(job.watch.log_file);
  for (std::string line; std::getline(log, line);)
    if (const auto x = json::parse(line); x.contains("validation_loss"))
      loss = x["validation_loss"];
  runtime::stream stream(job.backend, 1, {});
  runtime::reference_trainer trainer(
      job.training, std::make_shared<tests::formula_source>(job.training, true), stream);
  trainer.step();
  const auto expected = trainer.evaluate(tests::formula_source(job.training, false), 2).loss;
  CHECK(std::abs(loss / expected - 1) < (schedule == "dualpipe" ? 1e-5 : 1e-15));
}
