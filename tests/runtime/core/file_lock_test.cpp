#include "runtime/core/file_lock.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/file.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <csignal>
#include <fstream>
#include <set>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using troupe::tests::scratch_folder;

TEST_CASE("an output has one writer, and the second is told who it is", "[core]") {
  const scratch_folder folder;
  {
    const file_lock first(folder / "log", "write `watch.log_file`");
    const auto second = [&](const std::filesystem::path& path) {
      const file_lock lock(path, "write `watch.log_file`");
    };
    CHECK_THROWS_WITH(second(folder / "log"),
                      ContainsSubstring("cannot write `watch.log_file`")
                          && ContainsSubstring("process " + std::to_string(::getpid())));
    CHECK_THROWS_AS(second(folder.path() / "." / "log"), input_error);  // whatever it is called
    second(folder / "other");
  }
  CHECK(is_empty(folder.path()));
  const file_lock again(folder / "log", "write `watch.log_file`");
}

TEST_CASE("a writer that was killed is in nobody's way", "[core]") {
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
  CHECK_FALSE(is_empty(folder.path()));  // its lock file
  { const file_lock lock(folder / "log", "write"); }
  CHECK(is_empty(folder.path()));
}

TEST_CASE("who takes a lock clears away what the killed have left of that output and nothing else",
          "[core]") {
  const scratch_folder folder;
  const auto names = [&] {
    std::set<std::string> out;
    for (const auto& x : std::filesystem::directory_iterator(folder.path()))
      out.insert(x.path().filename().string());
    return out;
  };
  std::set<std::string> stay{
      "log", "log.partial-", "log.partial-7x", "log.partial", "log2.partial-7"};
  for (const auto& name : stay)
    std::ofstream(folder / name) << "x";
  std::ofstream(folder / "log.partial-7") << "half";
  std::filesystem::create_directory(folder / "log.partial-8");
  std::ofstream(folder / "log.partial-8/in") << "half";
  {
    const file_lock lock(folder / "log", "write");
    CHECK_THROWS_AS(file_lock(folder / "log", "write"), input_error);
  }
  CHECK(names() == stay);
}

TEST_CASE("of what others may be writing only what nobody has touched for that time is removed",
          "[core]") {
  const scratch_folder folder;
  const auto old = folder / "x.partial-7", young = folder / "x.partial-8";
  for (const auto& part : {old, young})
    std::ofstream(part) << "half";
  std::filesystem::create_symlink("x", folder / "link");
  std::filesystem::last_write_time(
      old, std::filesystem::file_time_type::clock::now() - surely_dead - std::chrono::hours(1));
  remove_parts_of(folder / "link", surely_dead);
  CHECK_FALSE(exists(old));
  CHECK(exists(young));
  remove_parts_of(folder / "link");
  CHECK_FALSE(exists(young));
  CHECK_NOTHROW(remove_parts_of(folder / "none/x"));
}

TEST_CASE("devices and places where no lock can be are locked by nobody", "[core]") {
  const file_lock a("/dev/null", "write"), b("/dev/null", "write");
  const file_lock c("/nowhere/at/all/log", "write"), d("/nowhere/at/all/log", "write");
}
