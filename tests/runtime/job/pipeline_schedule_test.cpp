#include "runtime/family/gpt/gpt_config.hpp"
#include "runtime/file/file.hpp"
#include "runtime/job/pipeline.hpp"
#include "runtime/schedule/check.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <optional>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;

namespace {

training_job job_of(const std::string& schedule, int pipeline, int replicas = 1) {
  training_job job;
  auto& m = job.training.model.as<gpt_config>();
  m.layers = 8;
  m.hidden = 32;
  m.heads = m.groups = 4;
  m.head_size = 8;
  m.ffn = 64;
  m.sequence = m.positions = 16;
  m.vocabulary = m.padded_vocabulary = 64;
  job.training.rate = {.maximum = 1e-3, .minimum = 1e-4, .warmup = 2, .decay = 100};
  job.training.batch = {.micro = 1, .global = 8 * replicas, .data_parallel = replicas};
  job.layout.world = pipeline * replicas;
  job.layout.pipeline = pipeline;
  job.layout.schedule.source = schedule;
  job.data.mock = true;
  job.train_iterations = 10;
  return job;
}

std::string complaint(const training_job& job) {
  const auto all = validate(job);
  REQUIRE(all.size() == 1);
  return all.front();
}

}  // namespace

TEST_CASE("chunks are placed as their schedule says", "[trainer]") {
  const auto hosts = [](const std::string& name, int rank) {
    std::vector<std::pair<int, int>> out;
    for (const auto& x : pipeline_schedule({.source = name}, 4, 8).hosted_by(rank))
      out.emplace_back(int(value(x.chunk)), int(value(x.copy)));
    return out;
  };
  using pairs = std::vector<std::pair<int, int>>;
  CHECK(hosts("1f1b", 1) == pairs{{1, 0}});
  CHECK(hosts("interleaved", 1) == pairs{{1, 0}, {5, 0}});
  CHECK(hosts("zb-v", 1) == pairs{{1, 0}, {6, 0}});
  CHECK(hosts("dualpipe", 1) == pairs{{1, 0}, {2, 1}});
}

TEST_CASE("the default schedule is Megatron's", "[trainer]") {
  CHECK(pipeline_schedule({}, 4, 8).name() == "1f1b");
  CHECK(pipeline_schedule({.chunks_per_rank = 2}, 4, 8).name() == "interleaved");
}

TEST_CASE("layers are split into the chunks of the schedule", "[trainer]") {
  const auto x = pipeline_of(job_of("zb-v", 4));
  CHECK(x.chunks.size() == 8);
  CHECK(x.flows.size() == 8);
  CHECK(x.ranks_of({"words", {0, 9}}) == std::vector<int>{0, 0});  // embedding and head
  CHECK(x.ranks_of({"words", {1, 2, 8}}) == std::vector<int>{0, 1, 0});
  auto uneven = job_of("zb-v", 4);
  uneven.layout.chunks = {{0, 5}, {5, 10}};
  CHECK_THROWS_WITH(pipeline_of(uneven), ContainsSubstring("cut into 2 stages"));
}

TEST_CASE("invalid schedules are refused with a remedy", "[trainer]") {
  const troupe::tests::scratch_folder folder;
  const auto bad = (folder / "bad.csv").string();
  write_text(bad, "0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n");
  const auto of = [](const std::string& source, int ranks, int m) {
    return [=] { pipeline_schedule({.source = source}, ranks, m); };
  };
  CHECK_THROWS_WITH(of("1f2b", 2, 4)(), ContainsSubstring("give one of gpipe, 1f1b"));
  CHECK_THROWS_WITH(of("dualpipe", 3, 8)(), ContainsSubstring("even"));
  CHECK_THROWS_WITH(of("dualpipe", 4, 4)(), ContainsSubstring("8"));
  CHECK_THROWS_WITH(of(bad, 2, 2)(), ContainsSubstring("PLAN-3"));
  CHECK_THROWS_WITH(of(bad, 3, 2)(), ContainsSubstring("has 2 rows"));
  CHECK_THROWS_WITH(of((folder / "none.csv").string(), 2, 1)(), ContainsSubstring("none.csv"));
  CHECK_THROWS_WITH(pipeline_schedule({.source = bad, .chunks_per_rank = 2}, 2, 2),
                    ContainsSubstring("`layout.schedule.chunks_per_rank`"));
}

TEST_CASE("conflicts between a schedule and other settings are reported", "[trainer]") {
  CHECK(validate(job_of("dualpipe", 4)).empty());
  auto x = job_of("dualpipe", 4);
  x.reduction.distributed_optimizer = true;
  CHECK(validate(x).empty());
  x.reduction.overlap_gradients = true;
  CHECK_THAT(complaint(x), ContainsSubstring("leave `reduction.overlap_gradients` out"));
  auto turns = job_of("dualpipe", 4, 2);
  turns.layout.replicas_per_worker = 2;
  turns.layout.world = 4;
  CHECK_THAT(complaint(turns), ContainsSubstring("`layout.replicas_per_worker` 2"));
}

TEST_CASE("the identity has the schedule only where it decides the bits", "[trainer]") {
  const auto plain = identity(job_of("1f1b", 4));
  CHECK(identity(job_of("zb-h1", 4)) == plain);
  CHECK(identity(job_of("gpipe", 4)) == plain);
  CHECK(identity(job_of("dualpipe", 4)) != plain);
  CHECK(identity(job_of("looped-bfs", 4)) != plain);
}

TEST_CASE("PLAN-6: too few credits are refused before the run starts", "[trainer][invariant]") {
  const auto text = "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n1F0,1F1,1B0,1B1,1F2,1F3,1B2,1B3\n";
  const auto with = [&](int credits) {
    return [=] { pipeline_schedule({.source = "x.csv", .text = text, .credits = credits}, 2, 4); };
  };
  CHECK_NOTHROW(with(0)());
  CHECK_NOTHROW(with(2)());
  CHECK_THROWS_WITH(
      with(1)(),
      ContainsSubstring("`layout.schedule.credits` 1 is too few")
          && ContainsSubstring("rank 0 waits at 0F3 for the credit of 1F2 of rank 1"));
}

TEST_CASE("PLAN-6: a validation ends with any number of credits", "[trainer]") {
  int raised = 0;
  for (const auto& named : named_schedules())
    for (const int credits : {0, 1, 2}) {
      if (named.name == "auto")
        continue;
      CAPTURE(named.name, credits);
      std::optional<pipeline_schedule> of;
      try {
        of.emplace(schedule_settings{.source = std::string(named.name), .credits = credits}, 4, 8);
      } catch (const input_error&) {
        continue;  // with so few credits its steps are refused
      }
      for (const int microbatches : {1, 8, 31}) {
        const auto by = of->validation_credits(microbatches);
        CHECK(check_handoffs(*of->validation(microbatches), *by).empty());
        raised += credits > 0 && by->activations.front() > credits ? 1 : 0;
      }
    }
  CHECK(raised > 0);
}
