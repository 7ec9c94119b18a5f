// Runs that record the choices of their routers, and runs that replay them.

#include "runtime/file/file.hpp"
#include "tests/support/experts_job.hpp"
#include "tests/support/recovered_job.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

/// The bytes of each file.
std::map<std::string, std::string> files_in(const std::filesystem::path& folder) {
  std::map<std::string, std::string> out;
  for (const auto& x : std::filesystem::directory_iterator(folder))
    out.emplace(x.path().filename().string(), runtime::read_text(x.path()));
  return out;
}

/// Three of four layers have experts, with groups and a bias.
runtime::training_job short_job(int pipeline, int data, int tensor, const tests::expert_ranks& of) {
  auto job = tests::experts_job(pipeline, data, tensor, of);
  job.training.batch.micro = 1;
  job.train_iterations = 3;
  return job;
}

/// Another model than the one that recorded: it would choose other experts.
runtime::training_job other_job(int pipeline, int data, int tensor, const tests::expert_ranks& of) {
  auto job = short_job(pipeline, data, tensor, of);
  job.training.seed = 99;
  return job;
}

std::vector<std::string> states_of(runtime::training_job job) {
  const tests::scratch_folder folder;
  job.watch.log_file = folder / "log.jsonl";
  CHECK(actors::run(tests::tiny_prepared(job)).reason == "");
  std::vector<std::string> out;
  std::ifstream in(folder / "log.jsonl");
  for (std::string line; std::getline(in, line);)
    if (const auto x = nlohmann::json::parse(line); x.contains("state_digest"))
      out.push_back(x["state_digest"]);
  return out;
}

std::vector<std::string> judged(const runtime::training_job& job) {
  std::vector<std::string> out;
  for (const auto& x : tests::by_reference_trainer(job))
    out.push_back(to_string(x.state));
  return out;
}

/// Records a run of four replicas; returns its states.
std::vector<std::string> record(const std::filesystem::path& folder) {
  auto job = short_job(1, 4, 1, {.expert = 2});
  const auto plain = states_of(job);
  job.training.expert_choices.record = folder;
  const auto out = states_of(job);
  CHECK(out.size() == 3);
  CHECK(out == plain);
  CHECK(files_in(folder).size() == 3);
  return out;
}

}  // namespace

TEST_CASE("CHOICES-2: a replay has the bits of the run that recorded", "[scenario][invariant]") {
  const tests::scratch_folder folder;
  const auto recorded = record(folder.path());
  auto same = short_job(1, 4, 1, {.expert = 2});
  same.training.expert_choices.replay = folder.path();
  CHECK(states_of(same) == recorded);

  const auto own = judged(other_job(1, 4, 1, {}));
  std::vector<std::string> replayed;
  for (const int expert : {1, 2, 4}) {
    CAPTURE(expert);
    auto job = other_job(1, 4, 1, {.expert = expert});
    job.training.expert_choices.replay = folder.path();
    if (replayed.empty())
      replayed = judged(job);
    CHECK(states_of(job) == replayed);
  }
  CHECK(replayed != own);
}

TEST_CASE("CHOICES-2: each layout replays the same choices", "[scenario][invariant]") {
  const auto what = GENERATE(as<std::string>(),
                             "one worker",
                             "stages",
                             "chunks",
                             "tensor ranks",
                             "turns",
                             "recomputed",
                             "verified",
                             "bf16",
                             "evaluated");
  CAPTURE(what);
  const tests::scratch_folder folder;
  record(folder / "first");
  auto job = what == "one worker"     ? other_job(1, 1, 1, {})
             : what == "stages"       ? other_job(2, 2, 1, {.expert = 2})
             : what == "chunks"       ? other_job(2, 2, 1, {.expert = 2})
             : what == "tensor ranks" ? other_job(1, 2, 2, {.expert = 2, .tensor = 2})
                                      : other_job(1, 4, 1, {.expert = 4});
  if (what == "turns") {
    tests::play_in_turn(job, 2);
    job.layout.expert = 2;
  }
  if (what == "chunks")
    job.layout.schedule.source = "zb-v";
  if (what == "recomputed")
    job.recompute = {.granularity = runtime::recompute_granularity::selective, .experts = true};
  if (what == "verified")
    job.recovery.verify_fraction = 1;
  if (what == "bf16")
    job.training.precision = runtime::dtype::bf16;
  if (what == "evaluated") {
    job.watch.eval_interval = 1;
    job.watch.eval_batches = 1;
  }
  job.training.expert_choices = {.record = folder / "again", .replay = folder / "first"};
  CHECK(states_of(job).size() == 3);
  CHECK(files_in(folder / "again") == files_in(folder / "first"));
}

TEST_CASE("a run that recovers records each step as an undisturbed one does",
          "[scenario][recovery]") {
  const std::string death = GENERATE("lane:0.0@2:weight-gradient", "stage:0.1@3:decided");
  CAPTURE(death);
  const tests::scratch_folder folder;
  auto job = tests::watched_job(short_job(1, 2, 1, {.expert = 2}));
  if (death.starts_with("stage"))
    job = tests::watched_job(short_job(2, 1, 1, {}));
  job.training.expert_choices.record = folder / "calm";
  CHECK(tests::live({"calm", job}).end.reason == "");
  job.training.expert_choices.record = folder / "disturbed";
  const auto x = tests::live({"disturbed", job}, death);
  CHECK(tests::look_at_whole(x, job) == tests::sentences{});
  CHECK(x.restarts == 1);
  CHECK(files_in(folder / "disturbed") == files_in(folder / "calm"));
}

TEST_CASE("choices that do not fit the run are refused", "[scenario]") {
  const tests::scratch_folder folder;
  record(folder / "some");
  const auto refuses = [](const runtime::training_job& job, const char* reason) {
    CAPTURE(reason);
    CHECK_THROWS_MATCHES(tests::by_reference_trainer(job),
                         runtime::input_error,
                         MessageMatches(ContainsSubstring(reason)));
  };
  auto job = short_job(1, 1, 1, {});
  job.training.expert_choices.replay = folder / "some";
  job.train_iterations = 4;
  refuses(job, "lacks choices of sample 24");
  job.training.expert_choices.replay = folder.path();
  refuses(job, "there is no '");
  job.training.expert_choices.replay = folder / "some";
  auto& m = job.training.model.as<runtime::gpt_config>();
  m.experts.number = 8;
  refuses(job,
          "has 2 of 4 experts for each of 16 tokens of a sample, and the router of this run "
          "chooses 2 of 8 for each of 16");
  m.experts.number = 4;
  m.experts.layers = "1";
  refuses(job, "decoder.layers.0.mlp.router.choices'");
}
