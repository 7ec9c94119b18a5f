// A restarted run and the ledger of a dead one.

#include "actors/job/cold_start.hpp"

#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/file/file.hpp"
#include "runtime/state/ledger_record.hpp"
#include "tests/support/deterministic.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unistd.h>
#include <variant>

using namespace troupe;

namespace {

/// A dead run with nine committed steps; every second one is on local disks.
struct dead_run {
  tests::scratch_folder above;
  runtime::training_job job = tests::tiny_job(2, 2);
  std::filesystem::path run = above / "run", save = above / "save", log = above / "log.jsonl";

  dead_run() {
    job.recovery.on = true;
    job.layout.processes = 2;
    job.train_iterations = 20;
    job.checkpoints.save = job.checkpoints.load = save;
    job.checkpoints.local_interval = 2;
    job.checkpoints.local_folder = above / "states";
    job.watch.log_file = log;
    std::filesystem::create_directories(save);
    const auto died = tests::without_threads(job);
    const runtime::held_run_folder held(run, "troupe 1", {});
    runtime::step_ledger ledger;
    ledger.write_down(held.ledger());
    const auto by = ledger.by(0);
    by->begin({});
    by->is_of({died->description.identity, 2});
    std::string lines;
    for (std::uint64_t n = 1; n <= 9; ++n) {
      const runtime::training_position at{.iteration = n, .consumed = 8 * n};
      if (n % 2 == 0)
        by->keep_position(at, true);
      by->commit({.at = at, .state = {n, n}, .parts = {}});
      by->tell(runtime::step_report{
          .iteration = n, .consumed_samples = 8 * n, .global_batch_size = 8, .state = {n, n}});
      lines += fmt::format("{{\"iteration\":{},\"lm_loss\":1}}\n", n);
    }
    runtime::write_text(log, lines);
  }

  /// Prepares the job again, as the same command does; true if it uses the dead run's ledger.
  bool again(std::uint64_t iteration = 0) {
    prepared = tests::without_threads(job);
    prepared->description.iteration = iteration;
    prepared->description.consumed = 8 * iteration;
    prepared->description.save = save.string();
    prepared->node->ledger = std::make_shared<runtime::step_ledger>();
    const runtime::held_run_folder held(run, "troupe 1", {});
    ledger_before = runtime::read_text(held.ledger());
    const bool out = actors::take_up_dead_run(*prepared, held);
    CHECK(out == prepared->node->ledger->is_written_down());
    if (!out)
      CHECK(runtime::read_text(held.ledger()) == ledger_before);
    return out;
  }
  /// Rewrites the ledger with `instead` applied to each record; an empty result drops the record.
  void leaves(
      const std::function<std::optional<runtime::ledger_record>(const runtime::ledger_record&)>&
          instead) const {
    std::string text;
    for (const auto& one : runtime::read_ledger(run / "ledger.jsonl"))
      if (const auto other = instead(one))
        text += runtime::text_of(*other) + "\n";
    runtime::write_text(run / "ledger.jsonl", text);
  }
  const runtime::step_ledger& ledger() const { return *prepared->node->ledger; }

  std::shared_ptr<actors::prepared_job> prepared;
  std::string ledger_before;
};

}  // namespace

TEST_CASE("COLD-2: the same job gets the steps that the dead run committed after its checkpoint",
          "[actors]") {
  dead_run it;
  std::filesystem::create_directories(it.save / runtime::iteration_folder(3));
  REQUIRE(it.again(3));
  CHECK(it.ledger().newest() == 9);
  CHECK(it.ledger().epoch() == 1);
  CHECK(it.ledger().state(8) == runtime::digest{8, 8});
  CHECK(it.ledger().state(3) == runtime::digest{});
  REQUIRE(it.ledger().position(8));
  CHECK(it.ledger().position(8)->consumed == 64);
  CHECK(it.ledger().facts().size() == 6);
  REQUIRE(it.prepared->node->written);  // the log has all of them
  CHECK(it.prepared->node->written->iteration == 8);
  REQUIRE(it.again(3));  // it dies before its first step, and restarts
  CHECK(it.ledger().newest() == 9);
  CHECK(it.ledger().epoch() == 1);
}

TEST_CASE("a run with a newer checkpoint than its local states starts from the checkpoint",
          "[actors]") {
  dead_run it;
  CHECK_FALSE(it.again(9));
}

TEST_CASE("COLD-1: another job does not use the local states", "[actors]") {
  dead_run it;
  SECTION("another identity") {
    it.job.training.seed += 1;
  }
  SECTION("another number of processes") {
    it.job.layout.processes = 4;
  }
  SECTION("no recovery") {
    it.job.recovery.on = false;
  }
  SECTION("no load of the saved checkpoint") {
    it.job.checkpoints.load.clear();
  }
  SECTION("a named checkpoint") {
    it.job.checkpoints.load = it.save / runtime::iteration_folder(0);
  }
  SECTION("finetuning from its weights") {
    it.job.checkpoints.finetune = true;
  }
  SECTION("experts made of a dense checkpoint") {
    it.job.checkpoints.upcycle = true;
  }
  SECTION("other initial weights") {
    it.job.checkpoints.load_hub = it.above / "model";
  }
  SECTION("initial values instead of the dead run's initial weights") {
    it.leaves([](auto x) {
      if (auto* const of = std::get_if<runtime::ledger::job>(&x))
        of->origin = "the model '/models/one'";
      return std::optional(x);
    });
  }
  CHECK_FALSE(it.again());
}

TEST_CASE("COLD-1: local states newer than a deliberately older checkpoint are not used",
          "[actors]") {
  dead_run it;
  {
    const auto held = runtime::held_run_folder(it.run, "troupe 1", {});
    runtime::step_ledger ledger;
    ledger.go_on_in(held.ledger());
    ledger.by(0)->saved(4);
  }
  SECTION("the newer checkpoint was removed") {
    CHECK_FALSE(it.again());
  }
  SECTION("the tracker names an older one") {
    for (const int iteration : {0, 4})
      std::filesystem::create_directories(it.save / runtime::iteration_folder(iteration));
    runtime::write_text(it.save / "latest_checkpointed_iteration.txt", "0\n");
    CHECK_FALSE(it.again());
  }
  SECTION("the newer one is only damaged: local states are used") {
    std::filesystem::create_directories(it.save / runtime::iteration_folder(4));
    runtime::write_text(it.save / "latest_checkpointed_iteration.txt", "4\n");
    CHECK(it.again());
  }
}

TEST_CASE("a run with a damaged or missing ledger starts", "[actors]") {
  dead_run it;
  const auto file = it.run / "ledger.jsonl";
  SECTION("damaged") {
    runtime::write_text(file, runtime::read_text(file) + "{\"committed\":{}}\n");
  }
  SECTION("a build without the job in its ledger") {
    it.leaves([](const auto& x) {
      return std::holds_alternative<runtime::ledger::job>(x) ? std::nullopt : std::optional(x);
    });
  }
  SECTION("a missing step") {
    it.leaves([](const auto& x) {
      const auto* const step = std::get_if<runtime::ledger::committed>(&x);
      return step != nullptr && step->at.iteration == 5 ? std::nullopt : std::optional(x);
    });
  }
  SECTION("a step that ran again with another state") {
    const runtime::ledger_record again = runtime::ledger::replayed{5, {5, 6}};
    runtime::write_text(file, runtime::read_text(file) + runtime::text_of(again) + "\n");
  }
  CHECK_FALSE(it.again());
}

TEST_CASE("a run starts although its ledger cannot be replaced", "[actors]") {
  dead_run it;
  // Writes use a temporary name; a folder of that name makes them fail for every user.
  std::filesystem::create_directory(it.run / fmt::format("ledger.jsonl.partial-{}", ::getpid()));
  CHECK_FALSE(it.again());
}

TEST_CASE("COLD-1: the ledger of unused local states is kept", "[actors]") {
  dead_run it;
  const auto file = it.run / "ledger.jsonl";
  const auto text = runtime::read_text(file);
  SECTION("beside another kept one") {
    for (const auto* name : {"ledger.before.jsonl", "ledger.before-2.jsonl"}) {
      runtime::write_text(file, text);
      actors::keep_ledger_left(file);
      CHECK_FALSE(std::filesystem::exists(file));
      CHECK(std::filesystem::exists(it.run / name));
    }
  }
  SECTION("except if a checkpoint is newer") {
    runtime::step_ledger ledger;
    ledger.go_on_in(file);
    ledger.by(0)->saved(9);
    actors::keep_ledger_left(file);
    CHECK(std::filesystem::exists(file));
  }
}
