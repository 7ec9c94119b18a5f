// Tests of jobs with actors on devices: workers share a device or have their own.

#include "runtime/device/backend_kind.hpp"
#include "runtime/family/gpt/gpt_config.hpp"
#include "runtime/job/device_setup.hpp"
#include "tests/emulator/control.hpp"
#include "tests/support/emulated_plugins.hpp"
#include "tests/support/saved_job.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <tuple>

using namespace troupe;
using json = nlohmann::json;

namespace {

std::vector<json> lines_of(const std::filesystem::path& path) {
  std::vector<json> out;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    out.push_back(json::parse(line));
  return out;
}

runtime::training_job device_job(int pipeline, int data, int tensor = 1) {
  auto job = tests::tiny_job(pipeline, data, tensor);
  job.backend = runtime::backend_kind::cuda;
  job.training.model.as<runtime::gpt_config>().layers = 2;
  job.training.model.as<runtime::gpt_config>().attention_dropout = 0;
  job.training.batch.micro = 1;
  job.training.batch.global = 4;
  job.train_iterations = 4;
  job.layout.chunks = {};
  return job;
}

/// (state, loss) of each step.
using course = std::vector<std::pair<std::string, double>>;

course of_run(const std::shared_ptr<actors::prepared_job>& prepared) {
  const auto log = prepared->opened().job.watch.log_file;
  std::filesystem::remove(log);
  REQUIRE(actors::run(prepared).exit_code == 0);
  course out;
  for (const auto& line : lines_of(log))
    if (line.contains("state_digest"))
      out.emplace_back(line["state_digest"], line["lm_loss"]);
  return out;
}

course by_actors(runtime::training_job job, const tests::scratch_folder& folder) {
  job.watch.log_file = folder / "log.jsonl";
  return of_run(tests::tiny_prepared(job));
}

course by_one_thread(const runtime::training_job& job) {
  course out;
  for (const auto& x : tests::by_reference_trainer(job))
    out.emplace_back(to_string(x.state), x.loss);
  return out;
}

}  // namespace

TEST_CASE("stages and replicas that share a device have the bits of the reference trainer",
          "[device][unsanitized]") {
  const auto [P, D] = GENERATE(std::pair(2, 1), std::pair(1, 2), std::pair(2, 2));
  CAPTURE(P, D);
  const tests::scratch_folder folder;
  auto job = device_job(P, D);
  const auto expected = by_one_thread(job);
  CHECK(expected.size() == 4);
  CHECK(by_actors(job, folder) == expected);
  if (D == 1)
    return;
  job.reduction.bucket_size = 2000;
  job.reduction.overlap_gradients = true;
  CHECK(by_actors(job, folder) == expected);
  job.reduction.distributed_optimizer = true;
  job.reduction.overlap_parameters = true;
  CHECK(by_actors(job, folder) == expected);
}

TEST_CASE("stages in fp16 that share a device have the bits of the reference trainer", "[device]") {
  const tests::scratch_folder folder;
  auto job = device_job(2, 1);
  job.training.precision = runtime::dtype::f16;
  const auto expected = by_one_thread(job);
  CHECK(by_actors(job, folder) == expected);
}

TEST_CASE("stages with a wire between them have the same bits on one device and on two",
          "[device][unsanitized]") {
  const bool two_devices = GENERATE(false, true), delayed = GENERATE(false, true);
  CAPTURE(two_devices, delayed);
  const tests::scratch_folder folder;
  auto job = device_job(2, 1);
  const auto expected = by_one_thread(job);
  if (two_devices)
    job.devices.numbers = {0, 1};
  if (delayed)
    job.faults = {.seed = 5, .lane_delay_us = 400, .message_delay_us = 400};
  job.transport = runtime::transports::ucx;
  CHECK(by_actors(job, folder) == expected);
}

TEST_CASE(
    "tensor ranks of two stages sum over NCCL and pass activations over a wire without deadlock",
    "[device]") {
  const int seed = GENERATE(1, 2);
  CAPTURE(seed);
  const tests::scratch_folder folder;
  auto job = device_job(2, 1, 2);
  job.devices.numbers = {0, 1, 2, 3};
  job.devices.exchange = runtime::collectives::nccl;
  const auto expected = by_actors(job, folder);
  job.faults = {.seed = std::uint64_t(seed), .lane_delay_us = 400, .message_delay_us = 400};
  job.transport = runtime::transports::ucx;
  CHECK(by_actors(job, folder) == expected);
}

TEST_CASE("a stage that dies in a step on a device leaves no waiting peer at a wire", "[device]") {
  const std::string who = GENERATE("stage:0.0", "lane:0.1");
  auto job = device_job(2, 1);
  job.transport = runtime::transports::ucx;
  job.faults.fault = who + "@2";
  const auto prepared = tests::tiny_prepared(job);
  const auto end = actors::run(prepared);
  CHECK(end.exit_code == 3);
  CHECK_THAT(end.reason, Catch::Matchers::ContainsSubstring("the fault injected for " + who));
  CHECK(prepared->node->transport->leased() == 0);
}

TEST_CASE("after stages have ended, their device holds only the states of their ranks",
          "[device]") {
  auto job = device_job(2, 1);
  job.recovery.on = true;
  const auto run = [&] {
    auto prepared = tests::tiny_prepared(job);
    REQUIRE(actors::run(prepared).exit_code == 0);
    prepared->node->reaper->wait();
    return prepared;
  };
  const auto free = [] { return runtime::open_devices().free_memory(0); };
  const auto first = run();  // lets libraries allocate what they keep
  const auto before = free();
  const auto prepared = run();
  std::int64_t states = 0;
  for (const int rank : {0, 1})
    states += prepared->node->estates->of(rank)->bytes().all();
  CHECK(states > 0);
  CHECK(before - free() <= states + states / 4);  // blocks may be a quarter larger
}

// The trace gets a device's spans when the device has passed them, the last ones at the end of the
// lanes.
TEST_CASE("the traces of a device and of the CPU have the same spans", "[device]") {
  const auto names = [&](runtime::backend_kind where) {
    auto job = device_job(2, 2);
    job.backend = where;
    job.reduction.bucket_size = 2000;
    job.reduction.overlap_gradients = true;
    const auto prepared = tests::tiny_prepared(job);
    REQUIRE(actors::run(prepared).exit_code == 0);
    std::multiset<std::tuple<int, int, std::uint64_t, std::string>> out;
    for (const auto& x : prepared->node->trace->spans()) {
      CHECK(x.begin_ns <= x.end_ns);
      out.emplace(x.rank, x.track, value(x.step), x.name);
    }
    return out;
  };
  CHECK(names(runtime::backend_kind::cuda) == names(runtime::backend_kind::cpu));
}

// The saver reads the snapshot half a second late; without a wait the next update would overwrite
// it.
TEST_CASE("a snapshot that the saver of a device reads late is still that of its step",
          "[device]") {
  const tests::scratch_folder folder;
  auto job = device_job(1, 1);
  job.training.precision = runtime::dtype::bf16;
  const auto expected = by_actors(job, folder);
  REQUIRE(expected.size() == 4);
  auto saving = job;
  saving.watch.log_file = folder / "saving.jsonl";
  saving.checkpoints.save = folder / "checkpoints";
  saving.checkpoints.save_interval = 1;
  std::filesystem::create_directories(saving.checkpoints.save);
  const auto prepared = tests::tiny_prepared(saving);
  int savers = 0;
  prepared->node->env.make_lane = [&savers](runtime::lane_settings settings) {
    if (settings.name.starts_with("save ")) {
      ++savers;
      settings.before_each = [] { std::this_thread::sleep_for(std::chrono::milliseconds(500)); };
    }
    return runtime::make_thread_lane(std::move(settings));
  };
  CHECK(of_run(prepared) == expected);
  CHECK(savers == 1);
  job.watch.log_file = folder / "log.jsonl";
  for (const int at : {1, 2, 3}) {
    CAPTURE(at);
    const auto from = saving.checkpoints.save / ("iter_000000" + std::to_string(at));
    CHECK(of_run(tests::going_on(job, from)) == course(expected.begin() + at, expected.end()));
  }
}

TEST_CASE("tensor ranks on a device train like one rank, with reproducible bits",
          "[device][unsanitized]") {
  const tests::scratch_folder folder;
  const auto sequence_parallel = GENERATE(false, true);
  auto job = device_job(1, 1, 2);
  job.layout.sequence_parallel = sequence_parallel;
  const auto first = by_actors(job, folder), again = by_actors(job, folder);
  CHECK(first == again);
  const auto whole = by_one_thread(device_job(1, 1));
  for (std::size_t i = 0; i < whole.size(); ++i)
    CHECK(first[i].second == Catch::Approx(whole[i].second).epsilon(1e-4));
}

TEST_CASE("delays of a device's lanes and recomputation change no bit", "[device]") {
  const tests::scratch_folder folder;
  auto job = device_job(2, 1);
  const auto expected = by_actors(job, folder);
  job.faults = {.seed = 7, .lane_delay_us = 400, .message_delay_us = 400};
  CHECK(by_actors(job, folder) == expected);
  job.recompute.granularity = runtime::recompute_granularity::full;
  CHECK(by_actors(job, folder) == expected);
}

TEST_CASE("workers on separate devices have the same bits with each transport of their sums",
          "[device][unsanitized]") {
  const tests::scratch_folder folder;
  auto job = device_job(1, 2);
  job.training.batch.global = 8;
  const auto expected = by_one_thread(job);
  job.reduction.distributed_optimizer = true;
  job.devices.numbers = {0, 1};
  CHECK(by_actors(job, folder) == expected);
  job.devices.exchange = runtime::collectives::nccl;
  CHECK(by_actors(job, folder) == expected);
  job.devices.exchange = runtime::collectives::nccl_fast;
  const auto fast = by_actors(job, folder);
  CHECK(by_actors(job, folder) == fast);
  for (std::size_t i = 0; i < fast.size(); ++i)
    CHECK(fast[i].second == Catch::Approx(expected[i].second).epsilon(1e-4));
}

// The limit is four per step: pools wait at their end for blocks that are still in use, some tens
// of waits per run. Reading the results one by one took six per step.
TEST_CASE("each worker waits for its device twice a step", "[device][unsanitized]") {
  const tests::scratch_folder folder;
  const int P = 2;
  auto job = device_job(P, 1);
  job.watch.log_params_norm = job.watch.log_zero_gradients = true;
  const auto waits = [&](int iterations) {
    job.train_iterations = iterations;
    const auto before = emulator::calls_so_far().waits;
    by_actors(job, folder);
    return emulator::calls_so_far().waits - before;
  };
  waits(1);  // also measures the products, once
  const auto two = waits(2);
  CHECK(waits(20) - two < std::uint64_t(18 * 4 * P));
}

TEST_CASE("NCCL requires a device per worker", "[device]") {
  auto job = device_job(1, 2);
  job.devices.numbers = {1};
  job.devices.exchange = runtime::collectives::nccl;
  CHECK_THROWS_WITH(
      runtime::prepare_devices(job, {0, 1}),
      Catch::Matchers::ContainsSubstring("`devices.exchange` nccl needs a device for each "
                                         "of the 2 workers of this process, but there are 1"));
}
