// Saves that die, or fail, at each call that modifies the disk.

#include "runtime/core/error.hpp"
#include "tests/runtime/checkpoint/saved.hpp"
#include "tests/support/disk_faults.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <cerrno>
#include <csignal>
#include <functional>
#include <optional>
#include <sys/wait.h>
#include <unistd.h>

using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

/// An operation on a checkpoint folder, and the checkpoints that can be there after its death.
struct deed {
  const char* what;
  std::function<void(const fs::path&)> before, act;
  std::optional<std::int64_t> older;  ///< the checkpoint before it
  std::int64_t newer;
};

void save_as_a_run_does(const fs::path& dir, std::int64_t iteration, int keep = 0) {
  const directory_lock lock(dir);
  save(dir, iteration);
  if (keep > 0)
    remove_all_but_latest(dir, keep);
}

const std::vector<deed>& deeds() {
  static const std::vector<deed> all = {
      {"the first save",
       [](const fs::path&) {},
       [](const fs::path& dir) { save_as_a_run_does(dir, 1); },
       std::nullopt,
       1},
      {"another save",
       [](const fs::path& dir) { save(dir, 1); },
       [](const fs::path& dir) { save_as_a_run_does(dir, 2); },
       1,
       2},
      {"a save in place of the same iteration",
       [](const fs::path& dir) { save(dir, 2); },
       [](const fs::path& dir) { save_as_a_run_does(dir, 2); },
       2,
       2},
      {"a save that removes older ones",
       [](const fs::path& dir) {
         save(dir, 1);
         save(dir, 2);
       },
       [](const fs::path& dir) { save_as_a_run_does(dir, 3, 1); },
       2,
       3},
      {"a save after one that died",
       [](const fs::path& dir) {
         save(dir, 1);
         fs::create_directory(dir / ".iter_0000002.generation-1.partial");
         std::ofstream(dir / ".iter_0000002.generation-1.partial/model-00001-of-00001.safetensors");
         fs::rename(dir / "iter_0000001", dir / ".iter_0000001.replaced");
       },
       [](const fs::path& dir) { save_as_a_run_does(dir, 2); },
       1,
       2},
  };
  return all;
}

int in_a_child(const std::function<void()>& work) {
  const auto child = ::fork();
  if (child == 0) {
    try {
      work();
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

bool is_killed(int status) {
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

std::optional<std::int64_t> valid_in(const fs::path& dir) {
  const auto found = latest_checkpoint(dir);
  if (!found.folder)
    return std::nullopt;
  const auto iteration = iteration_of_folder(found.folder->filename().string());
  CHECK(has_elements_of(*found.folder, iteration.value()));
  return iteration;
}

/// The next run finds the older or the newer checkpoint, without leftovers, and can save.
void check_next(const fs::path& dir, const deed& x) {
  std::optional<directory_lock> lock(dir);
  const auto found = valid_in(dir);
  CHECK((found == x.older || found == x.newer));
  for (const auto& name : names_in(dir))
    CHECK((name == ".lock" || name == tracker || iteration_of_folder(name)));
  lock.reset();
  x.act(dir);
  CHECK(valid_in(dir) == x.newer);
}

}  // namespace

TEST_CASE(
    "CHECKPOINT-VISIBLE: a process that dies at any call of a save leaves the old or the new state",
    "[checkpoint][unthreaded]") {
  const auto& x = deeds()[GENERATE(range(std::size_t{0}, deeds().size()))];
  CAPTURE(x.what);
  std::uint64_t call = 1;
  for (;; ++call) {
    CAPTURE(call);
    const scratch_folder dir;
    x.before(dir.path());
    const int status = in_a_child([&] {
      plant({.below = dir.path().string(), .nth = call});
      x.act(dir.path());
    });
    if (!is_killed(status)) {
      CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
      CHECK(valid_in(dir.path()) == x.newer);
      break;
    }
    check_next(dir.path(), x);
  }
  // Two shards, a manifest and a tracker are each opened, written, synced and renamed; so are their
  // folders.
  CHECK(call > 20);
}

TEST_CASE("after a failure of any call of a save the older checkpoint stays",
          "[checkpoint][unthreaded]") {
  const auto& x = deeds()[GENERATE(range(std::size_t{0}, deeds().size()))];
  const int error = GENERATE(ENOSPC, EIO, EROFS, ESTALE);
  CAPTURE(x.what, error);
  bool struck = true;
  for (std::uint64_t call = 1; struck; ++call) {
    CAPTURE(call);
    const scratch_folder dir;
    x.before(dir.path());
    bool told = false;
    {
      const planted_disk_fault fault({.below = dir.path().string(), .nth = call, .error = error});
      try {
        x.act(dir.path());
      } catch (const io_error& failure) {
        told = true;
        CHECK(std::string(failure.what()).find(dir.path().string()) != std::string::npos);
      }
      struck = disk_calls() >= call;
    }
    if (!told)
      CHECK(valid_in(dir.path()) == x.newer);
    check_next(dir.path(), x);
  }
}
