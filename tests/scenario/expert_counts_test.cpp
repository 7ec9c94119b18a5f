// The rows of experts in the logs of whole jobs: exact, and counted once, whatever the layout.

#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

using namespace troupe;

namespace {

/// Three of four layers have experts; a rank drops some of its rows.
runtime::training_job job_with_experts(int pipeline, int data, int expert, int tensor = 1) {
  auto job = tests::tiny_job(pipeline, data, tensor);
  auto& m = job.training.model.as<runtime::gpt_config>();
  m.linear_bias = false;
  m.experts = {.number = 4,
               .layers = "([0]*1+[1]*3)",
               .ffn = 24,
               .balance_weights = {0.01},
               .z_weight = 0.001,
               .capacity = 1};
  job.layout.expert = expert;
  job.layout.sequence_parallel = tensor > 1;
  job.train_iterations = 3;
  job.watch.expert_counts = 2;
  job.watch.expert_layers = true;
  return job;
}

std::vector<nlohmann::json> log_of(runtime::training_job job) {
  const tests::scratch_folder folder;
  job.watch.log_file = folder / "log.jsonl";
  const auto end = actors::run(tests::tiny_prepared(job));
  CHECK(end.reason == "");
  std::vector<nlohmann::json> out;
  std::ifstream in(folder / "log.jsonl");
  for (std::string line; std::getline(in, line);)
    out.push_back(nlohmann::json::parse(line));
  return out;
}

nlohmann::json counts_of(const runtime::step_report& x) {
  nlohmann::json out;
  for (const auto& layer : x.experts)
    out[layer.layer] = layer.counts;
  return out;
}

}  // namespace

TEST_CASE("counts of experts are exact, and equal for any number of expert ranks", "[scenario]") {
  const bool global = GENERATE(false, true);
  const auto balanced = [global](runtime::training_job job) {
    auto& experts = job.training.model.as<runtime::gpt_config>().experts;
    if (global) {
      experts.balance = {"aux_loss", "global_aux_loss"};
      experts.balance_weights = {0.01, 0.1};
      job.training.batch.global = 16;  // two micro-batches for each replica
    }
    return job;
  };
  const auto judged = tests::by_reference_trainer(balanced(job_with_experts(1, 4, 1)));
  std::int64_t dropped = 0;
  for (const auto& x : judged[1].experts) {
    // 2 experts for each of 16 tokens of a sample
    CHECK(std::reduce(x.counts.begin(), x.counts.end()) + x.dropped == 2 * (global ? 16 : 8) * 16);
    dropped += x.dropped;
  }
  CHECK(judged[1].experts.size() == 3);
  CHECK(dropped > 0);
  const int expert = GENERATE(1, 2, 4);
  const std::string recomputed = GENERATE("nothing", "experts", "layers");
  CAPTURE(global, expert, recomputed);
  auto job = balanced(job_with_experts(1, 4, expert));
  if (recomputed == "experts")
    job.recompute = {.granularity = runtime::recompute_granularity::selective, .experts = true};
  if (recomputed == "layers")
    job.recompute = {.granularity = runtime::recompute_granularity::full};
  const auto seen = log_of(job);
  REQUIRE(seen.size() == 3);
  CHECK(seen[1]["expert_counts"] == counts_of(judged[1]));
  CHECK(seen[1]["state_digest"] == to_string(judged[1].state));
  CHECK(seen[1]["dropped_expert_rows"] == dropped);
  for (const auto& x : judged[1].experts) {
    const auto& layer = seen[1]["expert_layers"][x.layer];
    CHECK(layer["most"] == x.most);
    CHECK(layer["least"] == x.least);
    CHECK(layer["entropy"] == x.entropy);
    CHECK(layer["dropped"] == x.dropped);
  }
  for (const auto* const loss : {"load_balancing_loss", "z_loss", "lm_loss", "loss"})
    CHECK(seen[1].contains(loss));
  CHECK(seen[1].contains("global_load_balancing_loss") == global);
  for (const auto uncounted : {std::size_t{0}, std::size_t{2}})
    for (const auto* const field : {"expert_counts", "expert_layers", "expert_entropy"})
      CHECK_FALSE(seen[uncounted].contains(field));
}

TEST_CASE("counts of experts are added over stages, replicas in turn and tensor ranks",
          "[scenario]") {
  const auto layout = GENERATE(as<std::string>(), "stages", "turns", "tensor ranks");
  CAPTURE(layout);
  auto job = layout == "stages"  ? job_with_experts(2, 2, 2)
             : layout == "turns" ? job_with_experts(1, 4, 2)
                                 : job_with_experts(1, 2, 2, 2);
  if (layout == "turns")
    tests::play_in_turn(job, 2);
  const auto judged = tests::by_reference_trainer(job);
  CHECK(log_of(job).at(1)["expert_counts"] == counts_of(judged[1]));
}
