#include "runtime/family/gpt/gpt_config.hpp"
#include "runtime/forecast/memory_forecast.hpp"
#include "runtime/forecast/peer_memory.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe;
using namespace troupe::runtime;

namespace {

/// GPT-3 345M on 8 replicas, micro-batches of 4.
training_job gpt3_345m() {
  training_job out;
  auto& m = out.training.model.as<runtime::gpt_config>();
  m.layers = 24;
  m.hidden = 1024;
  m.heads = m.groups = 16;
  m.head_size = 64;
  m.ffn = 4096;
  m.sequence = m.positions = 1024;
  m.vocabulary = 50257;
  m.padded_vocabulary = 50304;
  out.layout.world = 8;
  out.training.batch.micro = 4;
  out.training.batch.global = 32;
  out.training.batch.data_parallel = 8;
  return out;
}

}  // namespace

// Both lines are the output of Megatron-LM for these arguments.
TEST_CASE("the theoretical memory equals Megatron-LM's output", "[memory]") {
  auto sharded = gpt3_345m();
  sharded.reduction.distributed_optimizer = true;
  sharded.layout.sequence_parallel = true;
  sharded.recompute.granularity = recompute_granularity::selective;
  CHECK(to_text(megatron_memory(sharded).value())
        == "Theoretical memory footprints: weight and optimizer=2529.16 MB, "
           "activation=4070.03 MB, total=6599.19 MB");
  CHECK(to_text(megatron_memory(gpt3_345m()).value())
        == "Theoretical memory footprints: weight and optimizer=6069.97 MB, "
           "activation=3852.48 MB, total=9922.46 MB");
}

// 174.6 billion parameters, TP 8, PP 8, two replicas with a distributed optimizer: 12 bytes each.
// The stage with the embedding has 12 layers of 12 h^2, and 51200 h, over 8 tensor ranks. Each rank
// has all 4 h of a layer's norms; divided by ranks as well they would make 32004.85.
TEST_CASE("the theoretical memory counts norms as replicated over tensor ranks", "[memory]") {
  auto job = gpt3_345m();
  auto& m = job.training.model.as<runtime::gpt_config>();
  m.layers = 96;
  m.hidden = 12288;
  m.heads = m.groups = 96;
  m.head_size = 128;
  m.ffn = 4 * m.hidden;
  m.sequence = m.positions = 2048;
  m.padded_vocabulary = 51200;
  job.layout.world = 128;
  job.layout.tensor = job.layout.pipeline = 8;
  job.reduction.distributed_optimizer = true;
  CHECK_THAT(to_text(megatron_memory(job).value()),
             Catch::Matchers::ContainsSubstring("weight and optimizer=32010.79 MB, "));
}

TEST_CASE("the theoretical memory depends on gates, norms, groups, ties and the layout",
          "[memory]") {
  auto job = gpt3_345m();
  const auto weights = [&] { return megatron_memory(job).value().weights_and_optimizer / 18; };
  const auto plain = weights();
  CHECK(plain == 24 * (12 * 1024. * 1024 + 4 * 1024) + 2 * 1024 + 50304 * 1024.);
  job.training.model.as<runtime::gpt_config>().gated = true;
  CHECK(weights() == plain + 24 * 4096. * 1024);
  job = gpt3_345m();
  job.training.model.as<runtime::gpt_config>().normalization = kernels::normalization::rms;
  CHECK(weights() == plain - 24 * 2 * 1024 - 1024);
  job = gpt3_345m();
  job.training.model.as<runtime::gpt_config>().groups = 4;
  CHECK(weights() == plain - 24 * 2 * 1024. * 1024 * 0.75);
  job = gpt3_345m();
  job.training.model.as<runtime::gpt_config>().tied_embeddings = false;
  CHECK(weights() == plain + 50304 * 1024.);
  job.layout.pipeline = 2;  // the second embedding is on the last stage, which has less else
  CHECK(weights() == (plain - 50304 * 1024.) / 2 + 50304 * 1024.);
  job.layout.tensor = 2;
  const double norms = 24 * 4 * 1024 + 2 * 1024;  // on every tensor rank
  CHECK(weights() == (plain - norms - 50304 * 1024.) / 4 + norms / 2 + 50304 * 512.);
  // Four micro-batches per replica fill two stages; one fills half of them.
  job.training.batch = {.micro = 4, .global = 32, .data_parallel = 2};
  const auto full = megatron_memory(job).value().activations;
  job.training.batch.global = 8;
  CHECK(megatron_memory(job).value().activations == full / 2);
}

TEST_CASE("a forecast uses the largest batch, also where batches shrink", "[memory]") {
  auto job = gpt3_345m();
  auto& m = job.training.model.as<runtime::gpt_config>();
  m.layers = 4;
  m.hidden = 64;
  m.ffn = 256;
  m.heads = m.groups = 4;
  m.head_size = 16;
  m.sequence = m.positions = 8;
  m.vocabulary = m.padded_vocabulary = 128;
  job.layout = {.world = 4, .pipeline = 4};
  job.training.batch = {.micro = 2, .global = 16, .data_parallel = 1};
  const auto largest = forecast_memory(job, {});
  job.training.batch.global = 4;
  CHECK(forecast_memory(job, {}).activations < largest.activations);
  job.training.batch.steps = {{0, 16}, {64, 4}};
  CHECK(forecast_memory(job, {}) == largest);
  job.training.batch.global = 16;
  job.training.batch.steps = {{0, 4}, {64, 16}};
  CHECK(forecast_memory(job, {}) == largest);
}

TEST_CASE("the forecast of all workers equals that of each", "[memory]") {
  auto job = gpt3_345m();
  auto& m = job.training.model.as<runtime::gpt_config>();
  m.layers = 2;
  m.hidden = 64;
  m.ffn = 256;
  m.heads = m.groups = 4;
  m.head_size = 16;
  m.sequence = m.positions = 8;
  m.vocabulary = m.padded_vocabulary = 128;
  job.layout = {.world = 12, .tensor = 2, .pipeline = 2};
  job.training.batch = {.micro = 2, .global = 12, .data_parallel = 3};
  for (const bool distributed : {false, true}) {
    job.reduction.distributed_optimizer = distributed;
    job.reduction.grain = 64;
    int workers = 0;
    for (const auto& x : forecast_workers(job)) {
      workers += x.ranks;
      for (int d = x.first_data; d <= x.last_data; ++d)
        for (int t = 0; t < 2; ++t) {
          const auto y = forecast_memory(
              job, {{axis::tensor, t}, {axis::data, d}, {axis::pipeline, x.pipeline}});
          CAPTURE(distributed, x.pipeline, d, t);
          CHECK(y.parameters == x.need.parameters);
          CHECK(y.gradients == x.need.gradients);
          CHECK(y.optimizer == x.need.optimizer);
          CHECK(y.activations == x.need.activations);
          // The first tensor rank saves replicated parameters.
          CHECK((t == 0 ? y.snapshot == x.need.snapshot : y.snapshot <= x.need.snapshot));
        }
    }
    CHECK(workers == 12);
  }
}

TEST_CASE("a stage with a neighbour in another process has a copy of each received tensor",
          "[memory]") {
  auto job = gpt3_345m();
  auto& m = job.training.model.as<runtime::gpt_config>();
  m.layers = 4;
  m.hidden = 64;
  m.ffn = 256;
  m.heads = m.groups = 4;
  m.head_size = 16;
  m.sequence = m.positions = 8;
  m.vocabulary = m.padded_vocabulary = 128;
  job.layout = {.world = 12, .pipeline = 4};  // ranks 0 to 2 are stage 0's
  job.training.batch = {.micro = 2, .global = 24, .data_parallel = 3};
  const auto alone = forecast_workers(job);
  REQUIRE(alone.size() == 4);
  job.layout.processes = 2;  // stages 0 and 1, 2 and 3
  const auto two = forecast_workers(job);
  REQUIRE(two.size() == 4);
  CHECK(two[0].need == alone[0].need);
  CHECK(two[3].need == alone[3].need);
  CHECK(two[2].need.activations > alone[2].need.activations);
  CHECK(copies_handoffs(job, {{axis::pipeline, 1}}) == std::vector<char>{0, 0, 1, 1});
  job.layout.processes = 5;  // ranks 0 and 1, 2 to 3, 4 to 6, 7 to 8, 9 to 11
  int workers = 0;
  for (const auto& x : forecast_workers(job)) {
    workers += x.ranks;
    for (int d = x.first_data; d <= x.last_data; ++d)
      CHECK(forecast_memory(job, {{axis::data, d}, {axis::pipeline, x.pipeline}}) == x.need);
  }
  CHECK(workers == 12);
}
