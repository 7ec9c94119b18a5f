#include "runtime/core/error.hpp"
#include "tests/runtime/checkpoint/saved.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/small_disk.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <csignal>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

/// Saves the same iterations again and again until killed.
[[noreturn]] void save_for_ever(const fs::path& dir) {
  try {
    const directory_lock lock(dir);
    for (;;) {
      save(dir, 2);
      save(dir, 3);
    }
  } catch (...) {
  }
  ::_exit(1);
}

}  // namespace

TEST_CASE("a writer that is killed at any moment leaves a valid latest checkpoint",
          "[checkpoint]") {
  const scratch_folder dir;
  save(dir.path(), 1);
  for (int attempt = 0; attempt < 20; ++attempt) {
    const auto child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0)
      save_for_ever(dir.path());
    ::usleep(useconds_t(500 + 1700 * attempt));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    const auto found = latest_checkpoint(dir.path());
    CHECK(found.warnings.empty());
    REQUIRE(found.folder);
    CHECK(has_elements_of(*found.folder, *iteration_of_folder(found.folder->filename().string())));
  }
  const directory_lock lock(dir.path());
  for (const auto& name : names_in(dir.path()))
    CHECK((name == ".lock" || name == tracker || iteration_of_folder(name)));
}

TEST_CASE("a limit on file sizes is an error and keeps the older checkpoint", "[checkpoint]") {
  const scratch_folder dir;
  save(dir.path(), 1);
  rlimit before = {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto old_action = std::signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t limit : {0, 100, 500, 600, 700, 1000}) {
    const rlimit small = {limit, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
    std::string refusal;
    try {
      save(dir.path(), 2);
    } catch (const io_error& failure) {
      refusal = failure.what();
    }
    ::setrlimit(RLIMIT_FSIZE, &before);
    CHECK_THAT(refusal,
               ContainsSubstring("File too large") && ContainsSubstring(dir.path().string()));
    CHECK(names_in(dir.path()) == names{"iter_0000001", tracker});
    CHECK(latest_checkpoint(dir.path()).folder == dir / "iter_0000001");
  }
  std::signal(SIGXFSZ, old_action);
}

TEST_CASE("a full disk is an error and keeps the older checkpoint", "[checkpoint]") {
  const scratch_folder around;
  const auto dir = around / "full";
  const small_disk disk(dir, "1m");
  UNSCOPED_INFO(disk.way());
  save(dir, 1);
  for (const std::size_t n : {100000, 150000, 400000}) {  // 0.4, 0.6 and 1.6 MB per tensor
    if (!disk.mounted())
      plant({.below = dir.string(),
             .nth = 3 + n / 100000,
             .error = ENOSPC,
             .count = 1000,
             .calls = "write"});
    std::string refusal;
    try {
      save(dir, 2, n);
    } catch (const io_error& failure) {
      refusal = failure.what();
    }
    plant({});
    CHECK_THAT(
        refusal,
        ContainsSubstring("No space left on device") && ContainsSubstring("free some space"));
    CHECK(names_in(dir) == names{"iter_0000001", tracker});
    CHECK(latest_checkpoint(dir).folder == dir / "iter_0000001");
  }
  save(dir, 2);  // after space was freed
  CHECK(latest_checkpoint(dir).folder == dir / "iter_0000002");
}

TEST_CASE("a read-only disk is an error and keeps its checkpoints", "[checkpoint]") {
  const scratch_folder around;
  const auto dir = around / "read_only";
  const small_disk disk(dir, "1m");
  UNSCOPED_INFO(disk.way());
  save(dir, 2);
  if (disk.mounted())
    REQUIRE(disk.make_read_only());
  else
    plant({.below = dir.string(), .nth = 1, .error = EROFS, .count = 1000});
  CHECK_THROWS_WITH(save(dir, 3), ContainsSubstring("Read-only file system"));
  CHECK_THROWS_AS(directory_lock(dir), io_error);
  plant({});
  CHECK(latest_checkpoint(dir).folder == dir / "iter_0000002");
}
