#include "runtime/checkpoint/save_lock.hpp"
#include "runtime/core/error.hpp"
#include "tests/runtime/checkpoint/saved.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/disk_faults.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cerrno>
#include <fstream>
#include <unistd.h>

using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

TEST_CASE("the latest checkpoint is the one that the tracker names", "[checkpoint]") {
  const scratch_folder dir;
  CHECK_FALSE(latest_checkpoint(dir.path()).folder);
  CHECK_FALSE(latest_checkpoint(dir / "none").folder);
  save(dir.path(), 1);
  save(dir.path(), 2);
  auto found = latest_checkpoint(dir.path());
  CHECK(found.folder == dir / "iter_0000002");
  CHECK(found.warnings.empty());
  write_text(dir / tracker, "1");  // a run went back and left a newer checkpoint
  found = latest_checkpoint(dir.path());
  CHECK(found.folder == dir / "iter_0000001");
  CHECK(found.warnings.empty());
}

TEST_CASE("a damaged latest checkpoint is replaced by an older one, with a report",
          "[checkpoint]") {
  const scratch_folder dir;
  for (const int iteration : {1, 2, 3})
    save(dir.path(), iteration);
  flip_byte(dir / "iter_0000003/model-00001-of-00001.safetensors", 1);
  auto found = latest_checkpoint(dir.path());
  CHECK(found.folder == dir / "iter_0000002");
  REQUIRE(found.warnings.size() == 2);
  CHECK_THAT(found.warnings[0], ContainsSubstring("iter_0000003") && ContainsSubstring("'a'"));
  fs::remove(dir / "iter_0000002/manifest.json");
  found = latest_checkpoint(dir.path());
  CHECK(found.folder == dir / "iter_0000001");
  CHECK(found.warnings.size() == 3);
  fs::remove_all(dir / "iter_0000003");
  found = latest_checkpoint(dir.path());
  CHECK(found.folder == dir / "iter_0000001");
  CHECK_THAT(found.warnings.at(0), ContainsSubstring("no folder 'iter_0000003'"));
  fs::remove(dir / "iter_0000001/model-00001-of-00001.safetensors");
  CHECK_THROWS_WITH(latest_checkpoint(dir.path()), ContainsSubstring("no checkpoint"));
}

TEST_CASE("an unreadable latest checkpoint is replaced by an older one, too", "[checkpoint]") {
  const scratch_folder dir;
  for (const int iteration : {1, 2})
    save(dir.path(), iteration);
  for (const char* const call : {"mmap", "read"}) {
    const planted_disk_fault sector({.below = (dir / "iter_0000002").string(),
                                     .nth = 1,
                                     .error = EIO,
                                     .count = 9,
                                     .calls = call});
    const auto found = latest_checkpoint(dir.path());
    CHECK(found.folder == dir / "iter_0000001");
    CHECK_THAT(found.warnings.at(0),
               ContainsSubstring("iter_0000002") && ContainsSubstring("Input/output error"));
    CHECK_THROWS_WITH(open_checkpoint(dir / "iter_0000002"),
                      ContainsSubstring("Input/output error"));
  }
}

TEST_CASE("a missing or invalid tracker is reported", "[checkpoint]") {
  const scratch_folder dir;
  save(dir.path(), 1);
  save(dir.path(), 2);
  write_text(dir / tracker, "release\n");
  auto found = latest_checkpoint(dir.path());
  CHECK(found.folder == dir / "iter_0000002");
  CHECK_THAT(found.warnings.at(0), ContainsSubstring("'release"));
  fs::remove(dir / tracker);
  found = latest_checkpoint(dir.path());
  CHECK(found.folder == dir / "iter_0000002");
  CHECK_THAT(found.warnings.at(0), ContainsSubstring("is missing"));
}

TEST_CASE("the newest checkpoints and the tracked one are kept", "[checkpoint]") {
  const scratch_folder dir;
  for (const int iteration : {1, 2, 3, 4, 5})
    save(dir.path(), iteration);
  fs::remove(dir / "iter_0000004/manifest.json");  // does not count
  const auto removed = remove_all_but_latest(dir.path(), 2);
  CHECK(removed == std::vector<fs::path>{dir / "iter_0000002", dir / "iter_0000001"});
  CHECK(names_in(dir.path()) == names{"iter_0000003", "iter_0000004", "iter_0000005", tracker});
  CHECK(has_elements_of(dir / "iter_0000005", 5));
  write_text(dir / tracker, "3");
  CHECK(remove_all_but_latest(dir.path(), 1).empty());
  CHECK_BREAKS("CHECKPOINT-4", remove_all_but_latest(dir.path(), 0));
}

TEST_CASE("checkpoints at multiples of an interval are kept besides the newest", "[checkpoint]") {
  const scratch_folder dir;
  for (const int iteration : {2, 4, 6, 8, 10, 12})
    save(dir.path(), iteration);
  const auto removed = remove_all_but_latest(dir.path(), 1, 4);
  CHECK(removed
        == std::vector<fs::path>{dir / "iter_0000010", dir / "iter_0000006", dir / "iter_0000002"});
  CHECK(remove_all_but_latest(dir.path(), 1, 4).empty());
  CHECK(remove_all_but_latest(dir.path(), 1, 8) == std::vector<fs::path>{dir / "iter_0000004"});
}

TEST_CASE("two runs cannot save into one folder", "[checkpoint]") {
  const scratch_folder dir;
  {
    const directory_lock first(dir / "new");
    CHECK_THROWS_WITH(directory_lock(dir / "new"),
                      ContainsSubstring("process " + std::to_string(::getpid()) + " is saving"));
  }
  const directory_lock again(dir / "new");
}

TEST_CASE(
    "ONE-WRITER: after its folder was removed a run regains its lock unless another run has it",
    "[checkpoint]") {
  const scratch_folder dir;
  const auto saves = dir / "new";
  save_lock mine(saves);
  mine.take();
  CHECK_FALSE(mine.regain());
  fs::remove_all(saves);
  CHECK(mine.regain());
  CHECK_FALSE(mine.regain());
  CHECK_THROWS_WITH(directory_lock(saves), ContainsSubstring("is saving there"));
  fs::remove(saves / ".lock");
  {
    const directory_lock of_another(saves);
    CHECK_THROWS_WITH(mine.regain(),
                      ContainsSubstring("was removed during this run")
                          && ContainsSubstring("process " + std::to_string(::getpid())));
  }
  CHECK(mine.regain());
}

TEST_CASE("a refused lock is taken once it is free, and kept", "[checkpoint]") {
  const scratch_folder dir;
  save_lock mine(dir.path());
  {
    const directory_lock of_another(dir.path());
    CHECK_THROWS_WITH(mine.take(), ContainsSubstring("is saving there"));
    CHECK_FALSE(mine.regain());
  }
  CHECK_FALSE(mine.regain());
  CHECK_THROWS_WITH(directory_lock(dir.path()), ContainsSubstring("is saving there"));
  fs::remove(dir / ".lock");
  CHECK(mine.regain());
}

TEST_CASE("leftovers of dead writers are removed at the next start, and nothing else",
          "[checkpoint]") {
  const scratch_folder dir;
  save(dir.path(), 1);
  save(dir.path(), 2);
  for (const auto* name : {".iter_0000003.generation-1.partial",
                           ".iter_0000003.generation-1.attempt-2.partial",
                           ".iter_0000003.generation-1.attempt-2.by-71-1893.partial",
                           ".iter_12345678.generation-18446744073709551615.partial",
                           ".iter_0000004.removed",
                           ".iter_0000002.replaced",
                           ".iter_3.generation-1.partial",
                           ".iter_0000003.generation-.partial",
                           ".iter_0000003.generation-1.attempt-.partial",
                           ".iter_0000003.generation-1.partial.mine",
                           "iter_0000003.generation-1.partial"}) {
    fs::create_directory(dir / name);
    std::ofstream(dir / name / "x") << "x";
  }
  std::ofstream(dir / (tracker + ".partial-123")) << "3";
  std::ofstream(dir / (tracker + ".partial-mine")) << "3";
  // Imitates a death between two renames.
  fs::rename(dir / "iter_0000001", dir / ".iter_0000001.replaced");
  const directory_lock lock(dir.path());
  CHECK(names_in(dir.path())
        == names{".iter_0000003.generation-.partial",
                 ".iter_0000003.generation-1.attempt-.partial",
                 ".iter_0000003.generation-1.partial.mine",
                 ".iter_3.generation-1.partial",
                 ".lock",
                 "iter_0000001",
                 "iter_0000002",
                 "iter_0000003.generation-1.partial",
                 tracker,
                 tracker + ".partial-mine"});
  CHECK(has_elements_of(dir / "iter_0000001", 1));
}
