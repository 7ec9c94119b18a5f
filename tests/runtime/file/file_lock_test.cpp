#include "runtime/file/file_lock.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <chrono>
#include <csignal>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using troupe::tests::scratch_folder;

namespace {

std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> out;
  for (const auto& x : std::filesystem::directory_iterator(folder))
    out.insert(x.path().filename().string());
  return out;
}

std::string part_of(const std::string& name, pid_t process) {
  return name + ".partial-" + std::to_string(process);
}

void make_old(const std::filesystem::path& path) {
  const auto now = std::filesystem::file_time_type::clock::now();
  std::filesystem::last_write_time(path, now - surely_dead - std::chrono::hours(1));
}

}  // namespace

TEST_CASE("an output has one writer; the error for a second one names the first", "[core]") {
  const scratch_folder folder;
  {
    const file_lock first(folder / "log", "write `watch.log_file`");
    const auto second = [&](const std::filesystem::path& path) {
      const file_lock lock(path, "write `watch.log_file`");
    };
    CHECK_THROWS_WITH(second(folder / "log"),
                      ContainsSubstring("cannot write `watch.log_file`")
                          && ContainsSubstring("process " + std::to_string(::getpid())));
    CHECK_THROWS_AS(second(folder.path() / "." / "log"), input_error);  // the same file
    second(folder / "other");
  }
  CHECK(is_empty(folder.path()));
  const file_lock again(folder / "log", "write `watch.log_file`");
}

TEST_CASE("a killed writer does not block the next one", "[core]") {
  const scratch_folder folder;
  int held[2];
  REQUIRE(::pipe(held) == 0);
  const auto child = ::fork();
  if (child == 0) {
    const file_lock lock(folder / "log", "write");
    if (::write(held[1], "x", 1) == 1)
      ::pause();
    ::_exit(1);
  }
  char byte = 0;
  REQUIRE(::read(held[0], &byte, 1) == 1);
  CHECK_THROWS_WITH(file_lock(folder / "log", "write"),
                    ContainsSubstring("process " + std::to_string(child)));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK_FALSE(is_empty(folder.path()));  // the lock file
  { const file_lock lock(folder / "log", "write"); }
  CHECK(is_empty(folder.path()));
}

TEST_CASE("the next lock of an output removes the parts that a killed process left", "[core]") {
  const scratch_folder folder;
  const auto child = ::fork();
  if (child == 0) {
    const file_lock lock(folder / "log", "write");
    for (const auto* name : {"log", "log.bin"})
      std::ofstream(folder / part_of(name, ::getpid())) << "half";
    std::filesystem::create_directory(folder / part_of(".log", ::getpid()));
    std::ofstream(folder / part_of(".log", ::getpid()) / "in") << "half";
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  REQUIRE(
      names_in(folder.path())
      == std::set<std::string>{
          ".log.lock", part_of("log", child), part_of("log.bin", child), part_of(".log", child)});
  {
    const file_lock lock(folder / "log", "write");
    CHECK_FALSE(exists(folder / part_of("log", child)));
    CHECK(exists(folder / part_of("log.bin", child)));
    lock.remove_parts(folder / "log.bin");
    lock.remove_part_folders(folder / ".log");
  }
  CHECK(is_empty(folder.path()));
}

TEST_CASE("a lock leaves unrelated files and folders alone", "[core]") {
  const scratch_folder folder;
  const std::set<std::string> files{
      "log", "log.partial-", "log.partial-7x", "log.partial", "log2.partial-7", "log.partial-8"};
  for (const auto& name : files)
    std::ofstream(folder / name) << "x";
  std::filesystem::create_directory(folder / "log.partial-7");
  std::ofstream(folder / "log.partial-7/in") << "mine";
  std::filesystem::create_symlink("log", folder / "log.partial-9");
  for (const auto& name : names_in(folder.path()))
    if (name != "log.partial-8" && name != "log.partial-9")
      make_old(folder / name);
  make_old(folder / "log.partial-7/in");
  auto stay = names_in(folder.path());
  for (const auto* signature : {"8", "7\nanother host\n", "8\nanother host\n", "9 8\n", ""}) {
    std::ofstream(folder / ".log.lock") << signature;
    const file_lock lock(folder / "log", "write");
    lock.remove_parts(folder / "log");
  }
  CHECK(names_in(folder.path()) == stay);
  CHECK(exists(folder / "log.partial-7/in"));
  make_old(folder / "log.partial-8");  // possibly from another host, and now old
  { const file_lock lock(folder / "log", "write"); }
  stay.erase("log.partial-8");
  CHECK(names_in(folder.path()) == stay);
}

TEST_CASE("a lock that cannot be taken removes no files", "[core]") {
  const scratch_folder folder;
  const file_lock lock(folder / "new/log", "write");
  std::filesystem::create_directories(folder / "new/.log.partial-7");
  std::ofstream(folder / "new/log.partial-7") << "half";
  make_old(folder / "new/log.partial-7");
  make_old(folder / "new/.log.partial-7");
  lock.remove_parts(folder / "new/log");
  lock.remove_part_folders(folder / "new/.log");
  CHECK(names_in(folder / "new") == std::set<std::string>{".log.partial-7", "log.partial-7"});
}

TEST_CASE("a lock in a folder that was removed leaves the lock of the new folder alone", "[core]") {
  const scratch_folder folder;
  std::filesystem::create_directory(folder / "in");
  std::optional<file_lock> first(std::in_place, folder / "in/log", "write");
  std::filesystem::remove_all(folder / "in");
  std::filesystem::create_directory(folder / "in");
  const file_lock second(folder / "in/log", "write");
  first.reset();
  CHECK(exists(folder / "in/.log.lock"));
  CHECK_THROWS_AS(file_lock(folder / "in/log", "write"), input_error);
}

TEST_CASE("parts that another process may be writing are removed after a day without change",
          "[core]") {
  const scratch_folder folder;
  const auto old = folder / "x.partial-7", young = folder / "x.partial-8";
  for (const auto& part : {old, young})
    std::ofstream(part) << "half";
  std::filesystem::create_symlink("x", folder / "link");
  make_old(old);
  remove_parts_of(folder / "link");
  CHECK_FALSE(exists(old));
  CHECK(exists(young));
  remove_parts_of(folder / "link", 8);
  CHECK_FALSE(exists(young));
  CHECK_NOTHROW(remove_parts_of(folder / "none/x"));
  for (const auto& part : {old, young}) {
    std::filesystem::create_directory(part);
    std::ofstream(part / "in") << "half";
    make_old(part);
  }
  make_old(old / "in");
  remove_part_folders_of(folder / "x");
  CHECK_FALSE(exists(old));
  CHECK(exists(young));  // a file in it is recent
}

TEST_CASE("devices and places without room for a lock file are not locked", "[core]") {
  const file_lock a("/dev/null", "write"), b("/dev/null", "write");
  const file_lock c("/nowhere/at/all/log", "write"), d("/nowhere/at/all/log", "write");
}
