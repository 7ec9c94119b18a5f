#include "runtime/job/scheduler_values.hpp"

#include "runtime/core/error.hpp"
#include "runtime/job/build.hpp"
#include "runtime/job/job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <nlohmann/json.hpp>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;

namespace {

training_job some_job() {
  training_job x;
  x.data.mock = true;
  x.training.batch.global = 8;
  x.training.rate = {1e-3, 1.0 / 3, 1e-5, 8, 40, decay_style::cosine};
  x.training.rate.minimum = 1e-4 / 3;  // has no exact decimal form
  x.training.optimizer.weight_decay = 0.1;
  return x;
}

}  // namespace

TEST_CASE("the values of a schedule survive the identity exactly", "[job]") {
  const auto job = some_job();
  const auto found = scheduler_values_in(identity(job), "it");
  REQUIRE(found);
  CHECK(found->rate == job.training.rate);
  CHECK(found->weight_decay == weight_decay_schedule{0.1, 0.1});
  CHECK(differences(*found, *found).empty());
  auto other = *found;
  other.rate.decay = 41;
  CHECK_THAT(differences(*found, other), ContainsSubstring("or the whole run"));
  CHECK_THAT(differences(*found, other),
             ContainsSubstring("checkpoint 40 samples (5 steps of 8), this run 41 samples"));
  CHECK_FALSE(scheduler_values_in("{}", "it"));
}

TEST_CASE("an identity with an invalid schedule is refused", "[job]") {
  const auto good = nlohmann::json::parse(identity(some_job()));
  const auto refused = [&](const char* key, const nlohmann::json& value) {
    auto bad = good;
    bad["rate"][key] = value;
    CHECK_THROWS_AS(scheduler_values_in(bad.dump(), "it"), input_error);
  };
  refused("maximum", "fast");
  refused("maximum", -1);
  refused("maximum", nullptr);
  refused("minimum", 1);
  refused("warmup", "1.5");
  refused("decoupled_maximum", 1);  // without its minimum
  refused("style", "WSD");          // without its end
  refused("warmup", 40);
  refused("decay", -1);
  refused("decay", 18446744073709551615U);
  refused("style", "steep");
  refused("style", 1);
  auto bad = good;
  bad["rate"] = 1;
  CHECK_THROWS_AS(scheduler_values_in(bad.dump(), "it"), input_error);
  bad = good;
  bad["optimizer"] = nlohmann::json::object();
  CHECK_THROWS_AS(scheduler_values_in(bad.dump(), "it"), input_error);
}

TEST_CASE("contradictory flags of resuming are reported", "[job]") {
  auto job = some_job();
  job.checkpoints.override_scheduler = job.checkpoints.use_checkpoint_scheduler = true;
  job.checkpoints.finetune = job.checkpoints.strict_identity = true;
  job.checkpoints.keep_last = 2;
  std::string all;
  for (const auto& sentence : validate(job))
    all += sentence + "\n";
  CHECK_THAT(all, ContainsSubstring("contradict each other"));
  CHECK_THAT(all, ContainsSubstring("`checkpoints.finetune` needs `checkpoints.load`"));
  CHECK_THAT(all, ContainsSubstring("but `checkpoints.finetune` changes them"));
  CHECK_THAT(all, ContainsSubstring("`checkpoints.keep_last` needs `checkpoints.save`"));
}

TEST_CASE("the build is part of the identity, without folders of this machine", "[job]") {
  const auto build = build_identity();
  CHECK(build.count("version") == 1);
  CHECK(build.count("compiler") == 1);
  for (const auto& [key, text] : build)
    CHECK(text.find('/') == std::string::npos);
  const auto all = nlohmann::json::parse(identity(some_job()));
  CHECK(all["build"] == nlohmann::json(build));
}

TEST_CASE("the start of the moments is in the identity only if it is not the start of training",
          "[job]") {
  auto job = some_job();
  CHECK_FALSE(nlohmann::json::parse(identity(job))["optimizer"].contains("moments_from"));
  job.training.optimizer.moments_from = 7;
  CHECK(nlohmann::json::parse(identity(job))["optimizer"]["moments_from"] == 7);
}
