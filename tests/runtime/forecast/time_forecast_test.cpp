#include "runtime/forecast/time_forecast.hpp"

#include "runtime/family/gpt/gpt_config.hpp"
#include "runtime/job/batches.hpp"
#include "runtime/model/counts.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

using namespace troupe::runtime;
using Catch::Approx;

namespace {

constexpr double flops_per_second = 1e12;  ///< of no machine

/// 12 steps of 8 samples, without validations.
training_job small_job() {
  training_job out;
  auto& m = out.training.model.as<gpt_config>();
  m.layers = 2;
  m.hidden = 64;
  m.heads = m.groups = 4;
  m.head_size = 16;
  m.ffn = 256;
  m.sequence = m.positions = 32;
  m.vocabulary = m.padded_vocabulary = 128;
  m.hidden_dropout = m.attention_dropout = 0;
  out.training.batch = {.micro = 2, .global = 8};
  out.train_iterations = 12;
  out.watch.eval_interval = 0;
  return out;
}

double seconds_of(const training_job& job, std::uint64_t from = 0, double bubble = 0) {
  return forecast_time(job, from, flops_per_second, bubble).seconds;
}

}  // namespace

TEST_CASE("the forecast time is proportional to the steps that are left", "[trainer]") {
  auto job = small_job();
  CHECK(remaining_flops(job, 0)
        == Approx(12 * training_flops(spec_of(job.training), schema_of(job), 8)));
  const auto all = seconds_of(job);
  CHECK(all > 0);
  CHECK(seconds_of(job, 9) == Approx(all / 4));
  CHECK(seconds_of(job, 12) == 0);
  CHECK(seconds_of(job, 13) == 0);
  job.train_iterations *= 1000;
  CHECK(seconds_of(job) == Approx(all * 1000));
}

TEST_CASE("the forecast time counts the smaller batches of a ramp", "[trainer]") {
  auto job = small_job();
  const auto whole = seconds_of(job);
  job.training.batch.ramp_start = 4;  // 4 steps of 4 samples, then 8 of 8
  job.training.batch.ramp_increment = 4;
  job.training.batch.ramp_samples = 16;
  CHECK(seconds_of(job) == Approx(whole * (4 * 4 + 8 * 8) / (12 * 8)));
}

TEST_CASE("the forecast time of a validation is that of its forward passes", "[trainer]") {
  auto job = small_job();
  const auto without = seconds_of(job);
  job.watch.eval_interval = 4;  // after steps 4, 8 and 12
  job.watch.eval_batches = 2;
  CHECK(seconds_of(job) - without == Approx(without * 3 * 2 / 3.0 / 12));
  CHECK(seconds_of(job, 8) - without / 3 == Approx(without * 1 * 2 / 3.0 / 12));
}

TEST_CASE("the forecast time grows with slower products, with bubbles and with dropout",
          "[trainer]") {
  auto job = small_job();
  const auto all = seconds_of(job);
  CHECK(forecast_time(job, 0, flops_per_second / 2, 0).seconds == Approx(all * 2));
  CHECK(forecast_time(job, 0, flops_per_second / 2, 0).matrix_rate == flops_per_second / 2);
  CHECK(seconds_of(job, 0, 0.5) == Approx(all * 2));
  job.training.model.as<gpt_config>().hidden_dropout = 0.1;
  CHECK(seconds_of(job) > all);
}

TEST_CASE("a job on devices has no forecast of its time", "[trainer]") {
  auto job = small_job();
  job.backend = troupe::kernels::backend::cuda;
  CHECK_FALSE(measured_forecast(job, 0));
}
