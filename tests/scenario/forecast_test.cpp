// Forecast and actual memory use, for any schedule.

#include "runtime/forecast/memory_forecast.hpp"
#include "tests/support/counting_transport.hpp"
#include "tests/support/tiny_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

using namespace troupe;

TEST_CASE("the peak memory of each schedule is forecast within 5 percent on every rank",
          "[scenario]") {
  const std::string schedule = GENERATE("gpipe",
                                        "1f1b",
                                        "interleaved",
                                        "looped-bfs",
                                        "zb-h1",
                                        "izb",
                                        "zb-h2",
                                        "zb-v",
                                        "v-half",
                                        "v-min",
                                        "dualpipe",
                                        "dualpipev");
  CAPTURE(schedule);
  auto job = tests::tiny_job(2, 1);
  job.training.model.as<runtime::gpt_config>().sequence
      = job.training.model.as<runtime::gpt_config>().positions = 64;
  job.training.batch = {.micro = 2, .global = 16, .data_parallel = 1};
  job.layout.schedule.source = schedule;
  job.train_iterations = 2;
  const auto prepared = tests::tiny_prepared(job);
  REQUIRE(actors::run(prepared).exit_code == 0);
  CHECK(prepared->node->pools->peaks().size() == 2);
  for (const auto& [rank, peak] : prepared->node->pools->peaks()) {
    CAPTURE(rank, peak);
    const auto expected = runtime::forecast_memory(
        job, prepared->opened().pipeline, prepared->opened().seats.at(rank));
    // A rank with neighbouring chunks briefly holds what passes between them twice. Receivers are
    // fast here, so few results wait for them.
    const auto least = double(expected.peak() - expected.left_by_others) * 0.95;
    CHECK(double(peak) > least);
    CHECK(double(peak) < double(expected.peak()) * 1.05);
  }
}

TEST_CASE("inputs over a wire are part of the forecast, at the receiver and at the sender",
          "[scenario]") {
  const std::string schedule = GENERATE("gpipe", "1f1b");
  CAPTURE(schedule);
  auto job = tests::tiny_job(2, 1);
  job.training.model.as<runtime::gpt_config>().sequence
      = job.training.model.as<runtime::gpt_config>().positions = 64;
  job.training.batch = {.micro = 2, .global = 32, .data_parallel = 1};
  job.recompute.granularity = runtime::recompute_granularity::full;
  job.layout.schedule.source = schedule;
  job.train_iterations = 2;
  const auto forecast = [&job](int stage) {
    return runtime::forecast_memory(job, {{runtime::axis::pipeline, stage}});
  };
  const auto shared = forecast(1).activations;
  job.transport = runtime::transports::ucx;
  const auto input = forecast(0).handoffs.front().bytes;
  // GPipe's last stage has the inputs of all sixteen micro-batches.
  CHECK(forecast(1).activations >= shared + (schedule == "gpipe" ? 16 : 1) * input);
  const auto prepared = tests::tiny_prepared(job);
  REQUIRE(actors::run(prepared).exit_code == 0);
  const auto peaks = prepared->node->pools->peaks();
  REQUIRE(peaks.size() == 2);
  for (const auto& [rank, peak] : peaks) {
    CAPTURE(rank, peak);
    CHECK(double(peak) < double(forecast(rank).peak()) * 1.05);
  }
  const auto last = forecast(1);
  CHECK(double(peaks.at(1)) > double(last.peak() - last.left_by_others) * 0.95);
}

TEST_CASE("the memory of passes that are recomputed for verification is forecast", "[scenario]") {
  const double fraction = GENERATE(0.4, 1.0);
  const int data = GENERATE(1, 2);
  CAPTURE(fraction, data);
  auto job = tests::tiny_job(2, data);
  job.training.model.as<runtime::gpt_config>().sequence
      = job.training.model.as<runtime::gpt_config>().positions = 64;
  job.training.batch = {.micro = 2, .global = 16 * data, .data_parallel = data};
  job.train_iterations = 3;
  job.recovery.verify_fraction = fraction;
  const auto prepared = tests::tiny_prepared(job);
  REQUIRE(actors::run(prepared).exit_code == 0);
  for (const auto& [rank, peak] : prepared->node->pools->peaks()) {
    CAPTURE(rank, peak);
    const auto expected = runtime::forecast_memory(
        job, prepared->opened().pipeline, prepared->opened().seats.at(rank));
    CHECK(expected.verified > 0);
    CHECK(double(peak)
          > double(expected.peak() - expected.left_by_others - expected.verified) * 0.95);
    CHECK(double(peak) < double(expected.peak()) * 1.05);
  }
}

// All weights are 0, so each row chooses the first three experts: two of the first rank, one of the
// second. These are the worst case, a skew, and experts without rows.
TEST_CASE("the peak memory of experts is forecast for the rows that they get", "[scenario]") {
  auto job = tests::tiny_job(1, 4);
  auto& m = job.training.model.as<runtime::gpt_config>();
  m.sequence = m.positions = 64;
  m.linear_bias = false;
  m.init_std = 0;
  m.experts = {.number = 8, .ffn = 64, .chosen = 3};
  job.training.batch = {.micro = 8, .global = 32, .data_parallel = 4};
  job.layout.expert = 4;
  job.train_iterations = 2;
  const auto worst = runtime::most_expert_load(job);
  CHECK(worst == 8 / 3.0);
  const auto prepared = tests::tiny_prepared(job);
  REQUIRE(actors::run(prepared).reason == "");
  const auto peaks = prepared->node->pools->peaks();
  CHECK(peaks.size() == 4);
  for (const auto& [rank, peak] : peaks) {
    const double load = rank == 0 ? worst : rank == 1 ? worst / 2 : 0;
    CAPTURE(rank, peak, load);
    const auto expected
        = double(runtime::forecast_memory(
                     job, prepared->opened().pipeline, prepared->opened().seats.at(rank), load)
                     .peak());
    CHECK(double(peak) > expected * 0.95);
    CHECK(double(peak) < expected * 1.05);
  }
}

namespace {

/// Sets a flag when its backward passes begin.
class telling_worker final : public runtime::worker {
 public:
  telling_worker(std::atomic<bool>& backward,
                 runtime::worker_settings settings,
                 runtime::stream& by,
                 const runtime::worker_groups& groups)
      : worker(std::move(settings), by, groups), backward_(backward) {}

  runtime::bundle input_gradients(const runtime::pass_key& key,
                                  const runtime::bundle& in,
                                  int block) override {
    backward_ = true;
    return worker::input_gradients(key, in, block);
  }

 private:
  std::atomic<bool>& backward_;
};

}  // namespace

TEST_CASE("gradients that wait for a slow receiver are forecast", "[scenario]") {
  using namespace std::chrono_literals;
  auto job = tests::tiny_job(2, 1);
  job.training.model.as<runtime::gpt_config>().sequence
      = job.training.model.as<runtime::gpt_config>().positions = 64;
  job.training.batch = {.micro = 2, .global = 32, .data_parallel = 1};
  job.layout.schedule.source = "gpipe";
  job.layout.schedule.credits = 12;
  job.train_iterations = 2;
  const auto prepared = tests::tiny_prepared(job);
  const auto forecast
      = runtime::forecast_memory(job, prepared->opened().pipeline, {{runtime::axis::pipeline, 1}});
  REQUIRE(forecast.handoffs.size() == 1);
  CHECK(forecast.handoffs.front().what.gradient);
  CHECK(forecast.handoffs.front().what.credits == 12);
  const auto bytes = forecast.handoffs.front().bytes;
  CHECK(bytes == 2 * 64 * job.training.model.as<runtime::gpt_config>().hidden * 4);
  CHECK(forecast.left_by_others >= 11 * bytes);
  // Stage 0 takes gradients only after the maximum number of them waits.
  std::atomic<bool> backward = false;
  std::atomic<int> made = 0;
  const auto counting = std::make_shared<tests::counting_transport>(prepared->node->transport);
  prepared->node->transport = counting;
  prepared->node->env.make_worker
      = [&](const actors::worker_place& place,
            runtime::worker_settings settings,
            runtime::stream& by,
            const runtime::worker_groups& groups) -> std::unique_ptr<runtime::worker> {
    if (place.rank == "0.1")
      return std::make_unique<telling_worker>(backward, std::move(settings), by, groups);
    return std::make_unique<runtime::worker>(std::move(settings), by, groups);
  };
  prepared->node->env.make_lane = [&](runtime::lane_settings settings) {
    if (settings.name == "lane 0.0")
      settings.before_each = [&, waited = false]() mutable {
        if (!backward || std::exchange(waited, true))
          return;
        for (int i = 0; i < 5000 && counting->held() < 12; ++i)
          std::this_thread::sleep_for(1ms);
        std::this_thread::sleep_for(50ms);  // time for one too many
        made = counting->held();
      };
    return runtime::make_thread_lane(std::move(settings));
  };
  REQUIRE(actors::run(prepared).exit_code == 0);
  CHECK(made == 12);
  const auto peak = std::int64_t(prepared->node->pools->peaks().at(1));
  CHECK(peak <= forecast.peak() + forecast.peak() / 20);
}
