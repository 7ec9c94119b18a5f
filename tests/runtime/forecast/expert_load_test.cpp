// Forecasts of experts by the rows that they get.

#include "runtime/family/gpt/gpt_config.hpp"
#include "runtime/forecast/memory_forecast.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdint>

using namespace troupe;
using namespace troupe::runtime;

namespace {

/// Two of eight experts a row, shared by the ranks of eight replicas.
training_job job_of(int expert) {
  training_job out;
  auto& m = out.training.model.as<gpt_config>();
  m.layers = 2;
  m.hidden = m.ffn = 64;
  m.heads = m.groups = 4;
  m.head_size = 16;
  m.sequence = m.positions = 32;
  m.vocabulary = m.padded_vocabulary = 128;
  m.linear_bias = false;
  m.experts = {.number = 8, .ffn = 64};
  out.layout = {.world = 8, .expert = expert};
  out.training.batch = {.micro = 2, .global = 16, .data_parallel = 8};
  return out;
}

std::int64_t most_activations(const training_job& job, double load) {
  std::int64_t out = 0;
  for (const auto& x : forecast_workers(job, load))
    out = std::max(out, x.need.activations);
  return out;
}

}  // namespace

TEST_CASE("the worst case of a rank's experts: rows choose as many of them as they may",
          "[memory]") {
  CHECK(most_expert_load(job_of(1)) == 1);
  CHECK(most_expert_load(job_of(2)) == 2);
  CHECK(most_expert_load(job_of(4)) == 4);
  CHECK(most_expert_load(job_of(8)) == 4);  // one of the two choices
  auto job = job_of(4);
  auto& experts = job.training.model.as<gpt_config>().experts;
  experts.chosen = 8;
  CHECK(most_expert_load(job) == 1);
  experts.chosen = 2;
  experts.capacity = 1.5;
  CHECK(most_expert_load(job) == 1.5);  // 24 of 64 rows
  experts = {};
  CHECK(most_expert_load(job) == 0);
}

TEST_CASE("activations grow with the rows of experts, up to the worst case", "[memory]") {
  const auto job = job_of(4);
  const auto balanced = most_activations(job, 1), skewed = most_activations(job, 2),
             worst = most_activations(job, most_expert_load(job));
  CHECK(balanced < skewed);
  CHECK(skewed < worst);
  CHECK(most_activations(job, 100) == worst);
  const auto alone = job_of(1);
  CHECK(most_activations(alone, 2) == most_activations(alone, 1));
}
