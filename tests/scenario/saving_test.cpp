// Checkpoints on failing disks: training continues, and retries.

#include "tests/support/disk_faults.hpp"
#include "tests/support/saved_job.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/small_disk.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cerrno>
#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

runtime::training_job saving_job(const fs::path& folder) {
  auto job = tests::tiny_job(1, 1);
  job.checkpoints.save = folder / "checkpoints";
  job.checkpoints.save_interval = 4;
  job.checkpoints.last_pause = std::chrono::milliseconds(1);
  job.watch.log_file = folder / "log.jsonl";
  fs::create_directories(job.checkpoints.save);
  return job;
}

const std::map<int, std::string>& without_faults() {
  static const auto digests = [] {
    const tests::scratch_folder folder;
    actors::run(tests::tiny_prepared(saving_job(folder.path())));
    return tests::digests_in(folder / "log.jsonl");
  }();
  return digests;
}

std::vector<std::string> iterations_in(const fs::path& dir) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(dir))
    if (const auto name = entry.path().filename().string(); name != ".lock")
      out.push_back(name);
  std::sort(out.begin(), out.end());
  return out;
}

using names = std::vector<std::string>;
const std::string tracker = "latest_checkpointed_iteration.txt";

/// The number of calls that modify the folder in one save of this job.
std::uint64_t calls_of_a_save() {
  static const auto count = [] {
    const tests::scratch_folder folder;
    auto job = saving_job(folder.path());
    job.checkpoints.save_interval = 0;
    const tests::planted_disk_fault counting({.below = job.checkpoints.save.string()});
    actors::run(tests::tiny_prepared(job));
    return tests::disk_calls();
  }();
  return count;
}

}  // namespace

TEST_CASE("SAVE-RETRY: a failed save costs no step, and is retried", "[scenario][fault]") {
  const int error = GENERATE(ENOSPC, EROFS, EIO, ESTALE);
  // The save of iteration 4 fails, and so do one or two retries, which make fewer calls.
  const std::uint64_t struck = GENERATE(1, 3);
  CAPTURE(error, struck);
  const tests::scratch_folder folder;
  const auto job = saving_job(folder.path());
  const auto prepared = tests::tiny_prepared(job);
  actors::outcome end;
  {
    const tests::planted_disk_fault fault({.below = job.checkpoints.save.string(),
                                           .nth = 1,
                                           .error = error,
                                           .count = struck,
                                           .calls = "open,mkdir,rename"});
    end = actors::run(prepared);
  }
  CHECK(end.reason == "");
  CHECK(end.exit_code == 0);
  CHECK(tests::digests_in(folder / "log.jsonl") == without_faults());
  CHECK(runtime::latest_checkpoint(job.checkpoints.save).folder
        == job.checkpoints.save / "iter_0000012");
  CHECK_FALSE(fs::exists(job.checkpoints.save / "iter_0000004"));
  for (const auto& name : iterations_in(job.checkpoints.save))
    CHECK((name == tracker || name.starts_with("iter_")));  // without partial files
  CHECK(prepared->node->transport->leased() == 0);
}

TEST_CASE("a rename that fails once is retried", "[scenario][fault]") {
  const auto nth = std::uint64_t(GENERATE(range(1, 6)));
  CAPTURE(nth);
  const tests::scratch_folder folder;
  const auto job = saving_job(folder.path());
  {
    const tests::planted_disk_fault fault({.below = job.checkpoints.save.string(),
                                           .nth = nth,
                                           .error = ESTALE,
                                           .count = 1,
                                           .calls = "rename"});
    const auto end = actors::run(tests::tiny_prepared(job));
    CHECK(end.exit_code == 0);
  }
  CHECK(tests::digests_in(folder / "log.jsonl") == without_faults());
  CHECK(runtime::latest_checkpoint(job.checkpoints.save).warnings.empty());
  CHECK(runtime::latest_checkpoint(job.checkpoints.save).folder
        == job.checkpoints.save / "iter_0000012");
}

TEST_CASE("a last save that keeps failing sets the exit code, and earlier checkpoints stay intact",
          "[scenario][fault]") {
  const tests::scratch_folder folder;
  const auto disk_folder = folder / "checkpoints";
  const tests::small_disk disk(disk_folder,
                               "700k");  // room for one checkpoint, but not for two
  UNSCOPED_INFO(disk.way());
  const auto job = saving_job(folder.path());
  if (!disk.mounted())
    tests::plant({.below = disk_folder.string(),
                  .nth = calls_of_a_save() + 8,
                  .error = ENOSPC,
                  .count = 1000000});
  const auto prepared = tests::tiny_prepared(job);
  const auto end = actors::run(prepared);
  tests::plant({});
  CHECK(end.exit_code == 2);
  CHECK_THAT(end.reason,
             ContainsSubstring("iteration 12 is not saved")
                 && ContainsSubstring("No space left on device")
                 && ContainsSubstring("free some space"));
  CHECK(tests::digests_in(folder / "log.jsonl") == without_faults());
  CHECK(iterations_in(disk_folder) == names{"iter_0000004", tracker});
  CHECK(runtime::open_checkpoint(disk_folder / "iter_0000004")->manifest().iteration == 4);
  CHECK(prepared->node->transport->leased() == 0);
}

TEST_CASE("a removed checkpoint folder is created again", "[scenario][fault]") {
  const tests::scratch_folder folder;
  auto job = saving_job(folder.path());
  const auto prepared = tests::tiny_prepared(job);
  prepared->node->env.make_lane = [&](runtime::lane_settings settings) {
    settings.before_each = [&job, done = 0]() mutable {
      if (++done == 60)  // in the middle of the run
        fs::remove_all(job.checkpoints.save);
    };
    return runtime::make_thread_lane(std::move(settings));
  };
  CHECK(actors::run(prepared).exit_code == 0);
  CHECK(runtime::latest_checkpoint(job.checkpoints.save).folder
        == job.checkpoints.save / "iter_0000012");
}

TEST_CASE("a file in place of the checkpoint folder is reported, and training continues",
          "[scenario][fault]") {
  const tests::scratch_folder folder;
  auto job = saving_job(folder.path());
  fs::remove(job.checkpoints.save);
  std::ofstream(job.checkpoints.save) << "not a folder";
  const auto end = actors::run(tests::tiny_prepared(job));
  CHECK(end.exit_code == 2);
  CHECK_THAT(end.reason, ContainsSubstring("iteration 12 is not saved"));
  CHECK(tests::digests_in(folder / "log.jsonl") == without_faults());
}

namespace {

/// Runs in a child process, which is killed at call `nth`; 0: it is not killed.
int run_in_a_child(const fs::path& folder, std::uint64_t nth) {
  const auto child = ::fork();
  if (child == 0) {
    auto job = saving_job(folder);
    job.checkpoints.save_interval = 3;
    job.checkpoints.keep_last = 1;
    job.train_iterations = 7;
    if (nth > 0)
      tests::plant({.below = job.checkpoints.save.string(), .nth = nth});
    int code = 1;
    try {
      const runtime::directory_lock lock(job.checkpoints.save);
      const auto found = runtime::latest_checkpoint(job.checkpoints.save);
      code = actors::run(found.folder ? tests::going_on(job, *found.folder)
                                      : tests::tiny_prepared(job))
                 .exit_code;
    } catch (...) {
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("a run that is killed anywhere in its saves continues with the same bits",
          "[scenario][fault]") {
  const tests::scratch_folder whole;
  REQUIRE(run_in_a_child(whole.path(), 0) == 0);
  const auto expected = tests::digests_in(whole / "log.jsonl").at(7);
  int killed = 0;
  // tests/runtime/checkpoint/killed_test.cpp covers every call of a single save; here are some of a
  // run.
  for (std::uint64_t nth = 2;; nth += 9) {
    CAPTURE(nth);
    const tests::scratch_folder folder;
    const int status = run_in_a_child(folder.path(), nth);
    if (!WIFSIGNALED(status)) {
      CHECK(status == 0);
      break;
    }
    ++killed;
    CHECK(WTERMSIG(status) == SIGKILL);
    REQUIRE(run_in_a_child(folder.path(), 0) == 0);
    CHECK(tests::digests_in(folder / "log.jsonl").at(7) == expected);
    CHECK(iterations_in(folder / "checkpoints") == names{"iter_0000007", tracker});
  }
  CHECK(killed > 8);
}
