// Fault injection: the valid combinations of target, time and kind.

#include "runtime/job/planted_death.hpp"

#include "runtime/core/error.hpp"
#include "runtime/job/fault_rules.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <functional>
#include <string>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Two stages in two replicas, with recovery, checkpoints and validations.
training_job eventful_job() {
  training_job job;
  job.train_iterations = 6;
  job.training.batch.data_parallel = 2;
  job.layout = {.world = 4, .tensor = 1, .pipeline = 2};
  job.recovery.on = true;
  job.checkpoints.save = "checkpoints";
  job.watch.eval_interval = 3;
  return job;
}

/// The error for this fault in that job; empty if valid.
std::string refusal(
    const std::string& death,
    const std::function<void(training_job&)>& change = [](training_job&) {}) {
  auto job = eventful_job();
  job.faults.death = death;
  change(job);
  std::string out;
  for (const auto& sentence : validate_faults(job))
    out += sentence;
  return out;
}

}  // namespace

TEST_CASE("an actor can hang at moments that it reaches", "[trainer]") {
  const std::string text = GENERATE("lane:0.1@4:forward:hang",
                                    "wire:0.1@4:reduce:hang",
                                    "stage:0.1@4:vote:hang",
                                    "replica:1@4:decided:hang",
                                    "loader@4:forward:hang",
                                    "checkpointer@4:save:hang",
                                    "monitor@4:acknowledged:hang",
                                    "keeper@4:redeem:hang",
                                    "shard_writer@4:save:hang",
                                    "supervisor@4:vote:hang",
                                    "supervisor@4:reduce:hang",
                                    "node@4:forward:hang");
  CHECK(planted_death_from(text).how == death_kind::by_hanging);
}

TEST_CASE("a hang at a moment that is never reached is refused", "[trainer]") {
  const std::string text = GENERATE("lane:0.1@4:decided:hang",
                                    "wire:0.1@4:forward:hang",
                                    "stage:0.1@4:reduce:hang",
                                    "loader@4:vote:hang",
                                    "checkpointer@4:forward:hang",
                                    "monitor@4:forward:hang",
                                    "keeper@4:forward:hang",
                                    "shard_writer@4:acknowledged:hang");
  CHECK_THROWS_AS(planted_death_from(text), input_error);
}

TEST_CASE("a slow target is valid only where a check measures it", "[trainer]") {
  CHECK(refusal("lane:0.1@4:forward:slow").empty());
  CHECK(refusal("loader@4:forward:slow").empty());
  const std::string text
      = GENERATE("lane:0.1@4:reduce:slow", "stage:0.1@4:forward:slow", "loader@4:vote:slow");
  CHECK_THAT(refusal(text), ContainsSubstring("is slow at a moment that is not measured"));
}

TEST_CASE("wrong bits are valid only where two workers hold the same values", "[trainer]") {
  const std::string at = GENERATE("reduce", "updated");
  const auto death = "lane:1.1@4:" + at + ":wrong-bits";
  CHECK(refusal(death).empty());
  CHECK_THAT(refusal(death, [](auto& job) { job.reduction.distributed_optimizer = true; }),
             ContainsSubstring("`faults.death` '" + death + "'")
                 && ContainsSubstring("no check would detect")
                 && ContainsSubstring("each replica has its own share"));
  const auto alone = "lane:0.1@4:" + at + ":wrong-bits";
  const std::string why = "one worker computes all replicas of a stage";
  CHECK_THAT(refusal(alone, [](auto& job) { job.layout.replicas_per_worker = 2; }),
             ContainsSubstring(why));
  CHECK_THAT(refusal(alone, [](auto& job) { job.training.batch.data_parallel = 1; }),
             ContainsSubstring(why));
}

TEST_CASE("wrong bits that are equal on all replicas, or never compared, are refused",
          "[trainer]") {
  const std::string where = GENERATE("lane:0.1@4:forward",
                                     "lane:0.1@4:input-gradient",
                                     "lane:0.1@4:weight-gradient",
                                     "lane:0.1@4:redeem",
                                     "lane:0.1@4:snapshot",
                                     "lane:0.1@3:validate",
                                     "stage:0.1@4:updated",
                                     "loader@4:forward");
  CHECK_THAT(refusal(where + ":wrong-bits"),
             ContainsSubstring("flips a bit that no check would detect")
                 && ContainsSubstring("a lane's reduce or updated"));
}

TEST_CASE("wrong bits of a pass are valid if all passes are verified", "[trainer]") {
  const auto verified = [](auto& job) { job.recovery.verify_fraction = 1; };
  CHECK(refusal("lane:0.1@4:forward:wrong-bits", verified).empty());
  CHECK(refusal("lane:0.1@4:input-gradient:wrong-bits", verified).empty());
  CHECK_THAT(refusal("lane:0.0@4:input-gradient:wrong-bits", verified),
             ContainsSubstring("the first stage sends no gradient"));
  CHECK(refusal("lane:0.1@4:weight-gradient:wrong-bits", verified).empty());
  CHECK(refusal("lane:0.0@4:weight-gradient:wrong-bits", verified).empty());
  CHECK_THAT(refusal("lane:0.1@4:redeem:wrong-bits", verified),
             ContainsSubstring("no check would detect"));
}

TEST_CASE("a wrong input gradient on the first rank is valid only if that rank sends one",
          "[trainer]") {
  const auto refused_with = [](const std::string& schedule, int chunks_per_rank) {
    return refusal("lane:0.0@4:input-gradient:wrong-bits", [&](auto& job) {
      job.recovery.verify_fraction = 1;
      job.layout.schedule.source = schedule;
      job.layout.schedule.chunks_per_rank = chunks_per_rank;
    });
  };
  CHECK_FALSE(refused_with("", 0).empty());
  CHECK_FALSE(refused_with("1f1b", 0).empty());
  CHECK_FALSE(refused_with("zb-h1", 1).empty());
  CHECK(refused_with("", 2).empty());
  CHECK(refused_with("interleaved", 0).empty());
  CHECK(refused_with("dualpipe", 0).empty());  // its second copy ends on the first rank
  CHECK(refused_with("zb-v", 0).empty());
  CHECK(refused_with("mine.csv", 0).empty());
}

TEST_CASE("a fault that never happens is refused", "[trainer]") {
  CHECK(refusal("lane:0.1@6:forward").empty());
  CHECK_THAT(refusal("lane:0.1@7:forward"), ContainsSubstring("never occurs: the run has 6 steps"));
  CHECK(refusal("lane:0.1@3:validate").empty());
  CHECK_THAT(refusal("lane:0.1@3:validate", [](auto& job) { job.watch.eval_interval = 0; }),
             ContainsSubstring("no validations"));
  const std::string saving = GENERATE("checkpointer@4:save", "lane:0.1@4:snapshot");
  CHECK(refusal(saving).empty());
  CHECK_THAT(refusal(saving, [](auto& job) { job.checkpoints.save.clear(); }),
             ContainsSubstring("no checkpoints"));
  CHECK(refusal("stage:0.1@4:snapshot:hang").empty());
  CHECK(refusal("node@4:snapshot:hang").empty());
  CHECK(refusal("supervisor@4:snapshot:hang").empty());
  CHECK_THAT(refusal("stage:1.1@4:snapshot:hang"),
             ContainsSubstring("the first gives it to a checkpoint"));
  CHECK(refusal("stage:1.1@4:snapshot:hang", [](auto& job) {
          job.reduction.distributed_optimizer = true;
        }).empty());
}

TEST_CASE("a hang without a failure detector is refused", "[trainer]") {
  const auto without = [](auto& job) { job.recovery.on = false; };
  CHECK(refusal("lane:0.1@4:forward:hang").empty());
  CHECK_THAT(refusal("lane:0.1@4:forward:hang", without), ContainsSubstring("would hang forever"));
  CHECK(refusal("lane:0.1@4:forward", without).empty());
}

TEST_CASE("a fault that ends a process needs several processes", "[trainer]") {
  const std::string how = GENERATE("kill", "segv", "abort", "exit");
  const auto several = [](auto& job) { job.layout.processes = 2; };
  CHECK(ends_process(planted_death_from("lane:0.1@4:reduce:" + how).how));
  CHECK(refusal("lane:0.1@4:reduce:" + how, several).empty());
  CHECK_THAT(refusal("lane:0.1@4:reduce:" + how), ContainsSubstring("would end the whole run"));
  CHECK_THAT(refusal("node@4:reduce:" + how, several),
             ContainsSubstring("name a lane or a stage of that process"));
}

TEST_CASE("faults of keepers and shard writers need a job with some", "[trainer]") {
  const auto several = [](auto& job) { job.layout.processes = 2; };
  const std::string keeper = GENERATE("keeper@4:redeem", "keeper@4:acknowledged:kill");
  CHECK(refusal(keeper, several).empty());
  CHECK_THAT(refusal(keeper), ContainsSubstring("only a run with several processes"));
  CHECK_THAT(refusal(keeper,
                     [](auto& job) {
                       job.layout.processes = 2;
                       job.recovery.on = false;
                     }),
             ContainsSubstring("`recovery.on`"));
  const std::string writer = GENERATE("shard_writer@4:save", "shard_writer@4:forward:kill");
  CHECK(refusal(writer, several).empty());
  CHECK_THAT(refusal(writer), ContainsSubstring("has shard writers"));
  CHECK_THAT(refusal("shard_writer@4:forward",
                     [](auto& job) {
                       job.layout.processes = 2;
                       job.checkpoints.save.clear();
                     }),
             ContainsSubstring("`checkpoints.save`"));
}

TEST_CASE("a wrong state on its way to a keeper is valid in any layout", "[trainer]") {
  const auto changes = [](bool distributed) {
    return [distributed](training_job& job) {
      job.layout.processes = 2;
      job.reduction.distributed_optimizer = distributed;
    };
  };
  CHECK(refusal("keeper@4:redeem:wrong-bits", changes(GENERATE(false, true))).empty());
  CHECK_THAT(refusal("keeper@4:acknowledged:wrong-bits", changes(false)),
             ContainsSubstring("no check would detect"));
}

TEST_CASE("wrong moments need an optimizer with that moment and two workers with it", "[trainer]") {
  const std::string first = "lane:0.1@4:updated:wrong-moment";
  const std::string second = "lane:0.1@4:updated:wrong-second-moment";
  const auto kept_by = [](optimizer_kind kind, optimizer_kind others = optimizer_kind::adam) {
    return [kind, others](training_job& job) {
      job.training.optimizer.kind = kind;
      job.training.optimizer.muon.others = others;
    };
  };
  using enum optimizer_kind;
  for (const auto kind : {adam, sgd, lion, muon})
    CHECK(refusal(first, kept_by(kind)).empty());
  CHECK(refusal(second, kept_by(adam)).empty());
  CHECK(refusal(second, kept_by(muon)).empty());
  for (const auto& one : {kept_by(sgd), kept_by(lion), kept_by(muon, lion)})
    CHECK_THAT(refusal(second, one), ContainsSubstring("needs a second moment"));
  CHECK_THAT(refusal(first, [](auto& job) { job.reduction.distributed_optimizer = true; }),
             ContainsSubstring("no check would detect"));
  CHECK_THAT(refusal("lane:0.1@4:reduce:wrong-moment"),
             ContainsSubstring("plant it in a lane, at updated"));
}
