// Equal state on several workers: a planted difference ends the job.

#include "tests/support/tiny_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Sets each parameter to 0.01, except `name` on the first worker that has it.
std::function<void(runtime::worker&)> planting(const std::string& name) {
  const auto struck = std::make_shared<std::atomic<bool>>(false);
  return [=](runtime::worker& by) {
    bool here = false;
    by.restore(
        [&](const runtime::state_shard& to) {
          std::fill(to.elements.begin(), to.elements.end(), 0.01F);
          if (to.name == name && (here || !struck->exchange(true))) {
            here = true;
            std::fill(to.elements.begin(), to.elements.end(), 0.02F);
          }
        },
        false);
  };
}

std::string end_of(const runtime::training_job& job, const std::string& name) {
  const auto prepared = tests::tiny_prepared(job);
  prepared->node->restore = planting(name);
  const auto end = actors::run(prepared);
  CHECK(end.exit_code == (name.empty() ? 0 : 3));
  return end.reason;
}

}  // namespace

TEST_CASE("STEP-2: with a distributed optimizer replicas compute a step with the same values",
          "[scenario][fault]") {
  auto job = tests::tiny_job(2, 2);
  job.train_iterations = 2;
  job.reduction.distributed_optimizer = true;
  job.reduction.grain = 256;
  CHECK(end_of(job, "") == "");
  CHECK_THAT(end_of(job, "decoder.final_layernorm.weight"), ContainsSubstring("STEP-2"));
}

TEST_CASE("STEP-5: replicas hold the same state after the same update", "[scenario][fault]") {
  auto job = tests::tiny_job(2, 2);
  job.train_iterations = 2;
  CHECK(end_of(job, "") == "");
  CHECK_THAT(end_of(job, "decoder.final_layernorm.weight"), ContainsSubstring("STEP-5"));
}

TEST_CASE("STEP-6: tensor ranks and stages hold equal copies of shared parameters",
          "[scenario][fault]") {
  auto job = tests::tiny_job(2, 1, 2);
  job.train_iterations = 2;
  CHECK(end_of(job, "") == "");
  const std::string name = GENERATE(
      // on every tensor rank; added after a sum over tensor ranks; on two stages
      "decoder.final_layernorm.weight",
      "decoder.layers.1.mlp.linear_fc2.bias",
      "embedding.word_embeddings.weight");
  CAPTURE(name);
  // The error names the first parameter that differs; the planted difference changes others, too.
  CHECK_THAT(end_of(job, name), ContainsSubstring("they hold alike; but not "));
}
