// Commands of viewers to a running job.

#include "actors/support/command_desk.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/telemetry/record_ring.hpp"
#include "tests/support/saved_job.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/soon.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;

namespace {

namespace commands = runtime::commands;

runtime::training_job job_of(int pipeline = 2, int data = 2) {
  auto job = tests::tiny_job(pipeline, data);
  job.train_iterations = 12;
  return job;
}

/// Calls a function when the first batch of a step is requested, before the step can be committed.
class told_source final : public runtime::batch_source {
 public:
  told_source(std::shared_ptr<const runtime::batch_source> of,
              std::int64_t global_batch,
              std::function<void(std::uint64_t step)> tell)
      : of_(std::move(of)), global_batch_(global_batch), tell_(std::move(tell)) {}

  runtime::bundle microbatch(const runtime::microbatch_address& at) const override {
    const auto step = at.consumed / std::uint64_t(global_batch_) + 1;
    {
      const std::lock_guard lock(mutex_);
      if (step > newest_)
        tell_(newest_ = step);
    }
    return of_->microbatch(at);
  }

 private:
  std::shared_ptr<const runtime::batch_source> of_;
  std::int64_t global_batch_;
  std::function<void(std::uint64_t)> tell_;
  mutable std::mutex mutex_;
  mutable std::uint64_t newest_ = 0;
};

/// A job that gets commands during its steps.
class commanded_job {
 public:
  explicit commanded_job(runtime::training_job job) : job_(std::move(job)) {
    job_.watch.log_file = folder_ / "log.jsonl";
  }

  /// Sends the command before that step is committed. It takes effect before this step or the next
  /// one.
  commanded_job& during(std::uint64_t step, const runtime::run_command& what) {
    orders_.emplace(step, what);
    return *this;
  }

  actors::outcome run() {
    prepared_ = tests::tiny_prepared(job_);
    desk_ = std::make_shared<actors::command_desk>();
    prepared_->node->commands = desk_;
    prepared_->node->records = records_;
    prepared_->node->training = std::make_shared<told_source>(
        prepared_->node->training, job_.training.batch.global, [this](std::uint64_t step) {
          give(step);
        });
    auto out = actors::run(prepared_);
    desk_->close();
    return out;
  }

  std::map<int, std::string> digests() const { return tests::digests_in(folder_ / "log.jsonl"); }
  std::vector<runtime::ledger::commanded> kept() const {
    return prepared_->node->ledger->commands();
  }
  const runtime::step_ledger& ledger() const { return *prepared_->node->ledger; }
  /// Records of this kind for viewers, in their order.
  std::vector<nlohmann::json> records(const std::string& kind) const {
    constexpr std::size_t all = 1 << 30;
    std::vector<nlohmann::json> out;
    for (const auto& x : records_->since({1, 0}, all, all, {kind}).records)
      out.push_back(runtime::json_value(x.text));
    return out;
  }
  actors::command_desk& desk() { return *desk_; }
  /// The run's answers, in their order.
  std::vector<actors::command_answer> answers() {
    const std::lock_guard lock(mutex_);
    return answers_;
  }

 private:
  void give(std::uint64_t step) {
    const auto [begin, end] = orders_.equal_range(step);
    for (auto order = begin; order != end; ++order)
      desk_->put(
          {.what = order->second, .by = "test", .answer = [this](const actors::command_answer& x) {
             const std::lock_guard lock(mutex_);
             answers_.push_back(x);
           }});
  }

  tests::scratch_folder folder_;
  runtime::training_job job_;
  std::multimap<std::uint64_t, runtime::run_command> orders_;
  std::shared_ptr<actors::prepared_job> prepared_;
  std::shared_ptr<actors::command_desk> desk_;
  std::shared_ptr<runtime::record_ring> records_ = std::make_shared<runtime::record_ring>(1);
  std::mutex mutex_;
  std::vector<actors::command_answer> answers_;
};

runtime::rate_change change_in(const commanded_job& x) {
  const auto kept = x.kept();
  REQUIRE(kept.size() == 1);
  return {kept.front().step, kept.front().factor};
}

}  // namespace

TEST_CASE("a command that sets the learning rate gives the bits of a job with that change",
          "[scenario]") {
  commanded_job run(job_of());
  run.during(3, commands::learning_rate{2e-4});
  REQUIRE(run.run().reason == "");
  const auto change = change_in(run);
  CHECK((change.step == 3 || change.step == 4));
  auto same = job_of();
  same.training.rate_changes = {change};
  commanded_job without(same);
  REQUIRE(without.run().reason == "");
  REQUIRE(without.digests().size() == 12);
  CHECK(run.digests() == without.digests());
  commanded_job undisturbed(job_of());
  REQUIRE(undisturbed.run().reason == "");
  const auto expected = undisturbed.digests();
  for (const auto& [step, digest] : run.digests())
    CHECK((digest == expected.at(step)) == (std::uint64_t(step) < change.step));
}

TEST_CASE("CONTROL-1, CONTROL-2: a run that recovers keeps its commands and computes the same bits",
          "[scenario]") {
  const auto* const death
      = GENERATE("supervisor@9:decided", "lane:0.1@9:forward", "replica:0@9:forward");
  const auto during = GENERATE(3U, 9U);  // 9: the step that begins again has the change
  CAPTURE(death, during);
  auto job = job_of();
  job.recovery.on = true;
  job.faults.death = death;
  commanded_job run(job);
  run.during(during, commands::learning_rate{2e-4});
  REQUIRE(run.run().reason == "");
  REQUIRE(run.ledger().restarts().size() + run.ledger().epoch() > 0);
  auto same = job_of();
  same.training.rate_changes = {change_in(run)};
  commanded_job without(same);
  REQUIRE(without.run().reason == "");
  REQUIRE(without.digests().size() == 12);
  CHECK(run.digests() == without.digests());
}

TEST_CASE("a checkpoint records the learning rate changes of commands", "[scenario]") {
  const tests::scratch_folder folder;
  auto job = job_of();
  job.checkpoints.save = folder / "saved";
  job.checkpoints.save_interval = 8;
  commanded_job run(job);
  run.during(3, commands::learning_rate{2e-4});
  REQUIRE(run.run().reason == "");
  const auto change = change_in(run);
  const runtime::checkpoint_reader at(folder / "saved" / "iter_0000008");
  const auto changes = runtime::rate_changes_in(at.manifest().identity, "the checkpoint");
  CHECK(changes == std::vector{change});
  auto rest = job;
  rest.training.rate_changes = changes;
  rest.watch.log_file = folder / "rest.jsonl";
  rest.checkpoints.save = folder / "more";
  REQUIRE(actors::run(tests::going_on(rest, at.folder())).reason == "");
  const auto resumed = tests::digests_in(rest.watch.log_file), expected = run.digests();
  REQUIRE(resumed.size() == 4);
  for (const auto& [step, digest] : resumed)
    CHECK(digest == expected.at(step));
}

TEST_CASE("the last checkpoint has a learning rate for a step that has not begun", "[scenario]") {
  const tests::scratch_folder folder;
  auto job = job_of();
  job.checkpoints.save = folder / "saved";
  commanded_job run(job);
  run.during(3, commands::pause{})
      .during(3, commands::learning_rate{2e-4})
      .during(3, commands::stop{});
  REQUIRE(run.run().reason == "");
  const auto kept = run.kept();
  REQUIRE(kept.size() == 3);
  const auto newest = run.ledger().newest();
  REQUIRE(kept[1].step == newest + 1);
  const runtime::checkpoint_reader at(folder / "saved" / fmt::format("iter_{:07}", newest));
  const runtime::rate_change expected{kept[1].step, kept[1].factor};
  CHECK(runtime::rate_changes_in(at.manifest().identity, "the checkpoint")
        == std::vector{expected});
}

TEST_CASE("a paused run commits no step before it is resumed", "[scenario]") {
  commanded_job run(job_of());
  run.during(3, commands::pause{});
  auto end = std::async(std::launch::async, [&] { return run.run(); });
  REQUIRE(tests::soon([&] { return run.answers().size() == 1; }));
  CHECK(run.answers().front().done);
  const auto at = run.ledger().newest();
  CHECK(at <= 3);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(run.ledger().newest() == at);
  std::promise<actors::command_answer> status, resumed;
  run.desk().put({commands::status{}, "test", [&](const auto& x) { status.set_value(x); }});
  CHECK_THAT(status.get_future().get().message,
             ContainsSubstring(fmt::format("paused: step {} of 12 is committed", at)));
  run.desk().put({commands::resume{}, "test", [&](const auto& x) { resumed.set_value(x); }});
  CHECK(resumed.get_future().get().done);
  CHECK(end.get().reason == "");
  CHECK(run.ledger().newest() == 12);
}

TEST_CASE("a run stops after the commanded step, and saves it", "[scenario]") {
  const tests::scratch_folder folder;
  auto job = job_of();
  job.train_iterations = 200;
  job.checkpoints.save = folder / "saved";
  commanded_job run(job);
  run.during(3, commands::stop_after{60});
  REQUIRE(run.run().reason == "");
  CHECK(run.ledger().newest() == 60);
  CHECK(run.ledger().newest_saved() == 60);
}

TEST_CASE("a command saves the newest step", "[scenario]") {
  const tests::scratch_folder folder;
  auto job = job_of();
  job.checkpoints.save = folder / "saved";
  commanded_job run(job);
  run.during(3, commands::save{}).during(5, commands::save_interval{5});
  REQUIRE(run.run().reason == "");
  REQUIRE(run.kept().size() == 2);
  const auto saved = run.kept().front().step - 1;
  const auto is_saved = [&](std::uint64_t step) {
    return std::filesystem::exists(folder / "saved" / fmt::format("iter_{:07}", step));
  };
  CHECK(is_saved(saved));
  CHECK(is_saved(10));
  CHECK(is_saved(12));
  for (std::uint64_t step = 1; step < 12; ++step)
    if (step != saved && step % 5 != 0)
      CHECK_FALSE(is_saved(step));
}

TEST_CASE("a command evaluates after the newest step, and another sets the interval",
          "[scenario]") {
  auto job = job_of();
  job.watch.eval_interval = 100;
  job.watch.eval_batches = 1;
  commanded_job run(job);
  run.during(3, commands::evaluate{}).during(6, commands::eval_interval{2});
  REQUIRE(run.run().reason == "");
  const auto kept = run.kept();
  REQUIRE(kept.size() == 2);
  std::vector<std::uint64_t> expected{kept[0].step - 1}, found;
  // The command is taken before the validation of the step before it is decided.
  for (auto step = kept[1].step / 2 * 2; step <= 12; step += 2)
    expected.push_back(step);
  for (const auto& x : run.records("validation"))
    if (x.contains("validation_loss"))
      found.push_back(x["iteration"]);
  CHECK(found == expected);
}

TEST_CASE("commands make steps report their timelines and gradient norms", "[scenario]") {
  const int stages = GENERATE(1, 2);
  auto job = job_of(stages);
  job.recovery.on = true;
  job.faults.death = GENERATE("", "supervisor@6:decided");
  CAPTURE(stages, job.faults.death);
  commanded_job run(job);
  run.during(3, commands::trace{6}).during(3, commands::norms{"decoder.", 6});
  REQUIRE(run.run().reason == "");
  const auto kept = run.kept();
  REQUIRE(kept.size() == 2);
  std::map<std::uint64_t, double> grad_norms;
  for (const auto& x : run.records("step"))
    grad_norms[x["iteration"]] = x["grad_norm"];
  std::set<std::uint64_t> timed, normed;
  const auto six_from = [](std::uint64_t first) {
    std::set<std::uint64_t> out;
    for (std::uint64_t i = 0; i < 6; ++i)
      out.insert(first + i);
    return out;
  };
  for (const auto& x : run.records("timeline")) {
    timed.insert(x["iteration"].get<std::uint64_t>());
    REQUIRE(x["rows"].size() == std::size_t(stages));
    CHECK(x["rows"][0]["executed"].size() == x["rows"][0]["planned"].size());
    CHECK(x["left_out"] == 0);
  }
  CHECK(timed == six_from(kept[0].step));
  for (const auto& x : run.records("step"))
    CHECK(x.contains("bubble") == (stages > 1));
  for (const auto& x : run.records("norms")) {
    normed.insert(x["iteration"].get<std::uint64_t>());
    double squares = 0;
    REQUIRE(!x["gradients"].empty());
    for (const auto& [name, norm] : x["gradients"].items()) {
      CHECK(name.starts_with("decoder."));
      squares += norm.get<double>() * norm.get<double>();
    }
    CHECK(squares > 0);
    CHECK(std::sqrt(squares) <= grad_norms.at(x["iteration"]) * 1.0001);
  }
  CHECK(normed == six_from(kept[1].step));
}

TEST_CASE("viewers get the states of a run and its saves", "[scenario]") {
  const tests::scratch_folder folder;
  auto job = job_of();
  job.recovery.on = true;
  job.faults.death = "lane:0.1@9:forward";
  job.checkpoints.save = folder / "saved";
  commanded_job run(job);
  REQUIRE(run.run().reason == "");
  std::vector<std::string> states, saves;
  for (const auto& x : run.records("state"))
    states.push_back(x["state"]);
  CHECK(std::ranges::count(states, "recovering") == 1);
  CHECK(states.back() == "ending");
  for (const auto& x : run.records("save"))
    saves.push_back(fmt::format("{} {}", x["state"].get<std::string>(), x["iteration"].dump()));
  CHECK(saves == std::vector<std::string>{"begun 12", "collected 12", "written 12"});
  const auto members = run.records("member");
  CHECK(std::ranges::any_of(
      members, [](const auto& x) { return x["who"] == "replica:0" && x["state"] == "dead"; }));
  const auto events = run.records("event");
  REQUIRE(events.size() == 1);
  CHECK(events.front()["event"] == "restart");
}

TEST_CASE("a command that the run cannot carry out is refused with the reason", "[scenario]") {
  commanded_job run(job_of());
  run.during(2, commands::resume{})
      .during(3, commands::save{})
      .during(4, commands::replace{"stage:0.1"})
      .during(5, commands::stop_after{2})
      .during(6, commands::evaluate{})
      .during(7, commands::norms{"decoder.layers.99.", 1});
  REQUIRE(run.run().reason == "");
  CHECK(run.kept().empty());
  const auto answers = run.answers();
  REQUIRE(answers.size() == 6);
  const char* const reasons[] = {"the run is not paused",
                                 "has no folder to save into",
                                 "in a run of several processes",
                                 "step 2 is done",
                                 "began without validation",
                                 "no parameter has a name that begins with"};
  for (std::size_t i = 0; i < answers.size(); ++i) {
    CHECK_FALSE(answers[i].done);
    CHECK_THAT(answers[i].message, ContainsSubstring(reasons[i]));
  }
}

TEST_CASE("a run that has ended refuses commands", "[scenario]") {
  commanded_job run(job_of(1, 1));
  REQUIRE(run.run().reason == "");
  std::promise<actors::command_answer> answer;
  run.desk().put({commands::pause{}, "test", [&](const auto& x) { answer.set_value(x); }});
  const auto found = answer.get_future().get();
  CHECK_FALSE(found.done);
  CHECK(found.message == "the run has ended");
}
