#include "runtime/file/file.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/file/open_files.hpp"
#include "tests/support/disk_faults.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <fmt/format.h>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <vector>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a file is visible under its name only after commit", "[core]") {
  const troupe::tests::scratch_folder folder;
  {
    file_writer out(folder / "a");
    out.write("lost");
    CHECK_FALSE(std::filesystem::exists(folder / "a"));
  }
  CHECK(std::filesystem::is_empty(folder.path()));
  file_writer out(folder / "a");
  out.write("kept");
  out.commit();
  CHECK(read_text(folder / "a") == "kept");
}

TEST_CASE("a missing file and a folder are refused, and an empty file is mapped", "[core]") {
  const troupe::tests::scratch_folder folder;
  CHECK_THROWS_WITH(mapped_file(folder / "none"), ContainsSubstring("No such file"));
  CHECK_THROWS_WITH(mapped_file(folder.path()), ContainsSubstring("folder"));
  write_text(folder / "empty", "");
  CHECK(mapped_file(folder / "empty").bytes().empty());
}

TEST_CASE("MAPPED-1: unreadable bytes of a mapped file are zeros and are reported before use",
          "[core]") {
  const troupe::tests::scratch_folder folder;
  constexpr std::size_t page = 4096;
  write_text(folder / "a", std::string(8 * page, 'x'));
  const troupe::tests::planted_disk_fault sector(
      {.below = folder.path().string(), .nth = 1, .error = EIO, .calls = "mmap"});
  const mapped_file broken(folder / "a");
  CHECK(broken.text().front() == 'x');
  CHECK_NOTHROW(broken.require_intact());  // no byte was read
  CHECK(broken.text()[4 * page + 5] == '\0');
  CHECK(broken.text()[5 * page] == 'x');
  CHECK_THROWS_AS(broken.require_intact(), input_error);
  CHECK_THROWS_WITH(broken.require_intact(),
                    ContainsSubstring((folder / "a").string())
                        && ContainsSubstring(fmt::format("at byte {}", 4 * page))
                        && ContainsSubstring("Input/output error"));
  const mapped_file sound(folder / "a");
  CHECK(sound.text().find('\0') == std::string_view::npos);
  CHECK_NOTHROW(sound.require_intact());
}

TEST_CASE("the soft limit of open files is raised up to the hard one", "[core]") {
  rlimit before = {}, after = {};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few = {std::min<rlim_t>(256, before.rlim_max), before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  raise_limit_of_open_files();
  CHECK(::getrlimit(RLIMIT_NOFILE, &after) == 0);
  ::setrlimit(RLIMIT_NOFILE, &before);
  CHECK(after.rlim_cur == std::min<rlim_t>(65'536, before.rlim_max));
  CHECK(after.rlim_max == before.rlim_max);
}

TEST_CASE("more files can be mapped than open", "[core]") {
  const troupe::tests::scratch_folder folder;
  rlimit before = {};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few = {64, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  std::vector<mapped_file> files;
  std::exception_ptr thrown;
  try {
    for (int i = 0; i < 100; ++i) {
      const auto name = folder / fmt::format("{}", i);
      write_text(name, std::string(3, char('0' + i % 10)));
      files.emplace_back(name);
    }
  } catch (...) {
    thrown = std::current_exception();
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
  CHECK_FALSE(thrown);
  REQUIRE(files.size() == 100);
  CHECK(files[37].text() == "777");
  CHECK_NOTHROW(files[37].require_intact());
  std::filesystem::resize_file(folder / "37", 1);
  CHECK_THROWS_AS(files[37].require_intact(), input_error);
  std::filesystem::remove(folder / "38");  // the mapping keeps its bytes
  write_text(folder / "38", "8");
  CHECK(files[38].text() == "888");
  CHECK_NOTHROW(files[38].require_intact());
}

TEST_CASE("a file that cannot be mapped names the limits", "[core]") {
  const troupe::tests::scratch_folder folder;
  write_text(folder / "large", "");
  std::filesystem::resize_file(folder / "large", std::uintmax_t{4} << 30);  // sparse
  rlimit before = {};
  REQUIRE(::getrlimit(RLIMIT_AS, &before) == 0);
  rlim_t pages = 0;
  REQUIRE(std::ifstream("/proc/self/statm") >> pages);
  const rlimit tight = {pages * 4096 + (rlim_t{1} << 30), before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_AS, &tight) == 0);
  CHECK_THROWS_WITH(mapped_file(folder / "large"),
                    ContainsSubstring("large': Cannot allocate memory; ")
                        && ContainsSubstring("vm.max_map_count"));
  ::setrlimit(RLIMIT_AS, &before);
}

TEST_CASE("MAPPED-1: a truncated mapped file is reported, also within a page", "[core]") {
  const troupe::tests::scratch_folder folder;
  for (const std::size_t left : {std::size_t{0}, std::size_t{9000}, std::size_t{39990}}) {
    write_text(folder / "a", std::string(40000, 'x'));
    mapped_file file(folder / "a");
    const mapped_file other(folder / "a");
    const auto moved = std::move(file);
    std::filesystem::resize_file(folder / "a", left);
    CHECK(std::count(moved.text().begin(), moved.text().end(), 'x') == std::ptrdiff_t(left));
    CHECK_THROWS_WITH(moved.require_intact(),
                      ContainsSubstring("cut short")
                          && ContainsSubstring(fmt::format("from 40000 to {} bytes", left)));
    CHECK_THROWS_AS(other.require_intact(), input_error);
  }
}

TEST_CASE("an error while reading a small file names it and the byte", "[core]") {
  const troupe::tests::scratch_folder folder;
  write_text(folder / "a", "a");
  const troupe::tests::planted_disk_fault sector(
      {.below = folder.path().string(), .nth = 1, .error = EIO, .calls = "read"});
  CHECK_THROWS_AS(read_text(folder / "a"), input_error);
  CHECK(read_text(folder / "a") == "a");
}

TEST_CASE("a file that the system refuses to open is not reported as missing", "[core]") {
  const troupe::tests::scratch_folder folder;
  write_text(folder / "a", "a");
  rlimit before = {};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none = {0, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  std::exception_ptr thrown;
  try {
    mapped_file(folder / "a");
  } catch (...) {
    thrown = std::current_exception();  // examined later: UBSan needs files to examine an object
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
  REQUIRE(thrown);
  std::string said;
  try {
    std::rethrow_exception(thrown);
  } catch (const io_error& failure) {
    said = failure.what();
  }
  CHECK_THAT(said, ContainsSubstring("Too many open files"));
}

TEST_CASE("an error of writing says where and why", "[core]") {
  CHECK_THROWS_AS(file_writer("/proc/nowhere/x"), io_error);
  CHECK_THROWS_WITH(write_text("/dev/full/x", "a"), ContainsSubstring("/dev/full/x"));
}

TEST_CASE("writing follows a link and keeps it; a device is written in place", "[core]") {
  const troupe::tests::scratch_folder folder;
  std::filesystem::create_directory(folder / "there");
  write_text(folder / "there/file", "old");
  std::filesystem::create_symlink("there/file", folder / "link");
  std::filesystem::create_symlink("there/new", folder / "dangling");
  write_text(folder / "link", "new");
  write_text(folder / "dangling", "made");
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK(std::filesystem::is_symlink(folder / "dangling"));
  CHECK(read_text(folder / "there/file") == "new");
  CHECK(read_text(folder / "there/new") == "made");
  std::filesystem::create_symlink("/dev/null", folder / "nowhere");
  write_text(folder / "nowhere", "lost");
  CHECK(std::filesystem::is_character_file(folder / "nowhere"));
  CHECK_THROWS_WITH(write_text("/dev/full", "a"), ContainsSubstring("No space left"));
  CHECK_THROWS_WITH(write_text(folder / "there", "a"), ContainsSubstring("directory"));
}

TEST_CASE("the error of writing says FIFO without a reader for a FIFO only", "[core]") {
  const troupe::tests::scratch_folder folder;
  REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(write_text(folder / "fifo", "a"),
                    ContainsSubstring("is a FIFO without a reader"));
  REQUIRE(::mknod((folder / "socket").c_str(), S_IFSOCK | 0600, 0) == 0);
  CHECK_THROWS_WITH(write_text(folder / "socket", "a"),
                    ContainsSubstring("socket") && !ContainsSubstring("FIFO"));
}

TEST_CASE("obstacles to writing are found without writing", "[core]") {
  const troupe::tests::scratch_folder folder;
  CHECK_FALSE(write_obstacle(folder / "file"));
  CHECK_FALSE(write_obstacle(folder / "not/yet/there"));
  CHECK_FALSE(write_obstacle("/dev/null"));
  write_text(folder / "file", "");
  CHECK_THAT(write_obstacle(folder / "file/x").value(), ContainsSubstring("not a folder"));
  CHECK(std::filesystem::is_empty(folder / "file"));
}

TEST_CASE("hashes equal their published values", "[core]") {
  sha256 h;
  h.add("abc", 3);
  CHECK(h.hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hash64("") == 0x2d06800538d394c2ULL);  // XXH3_64bits of the empty string, seed 0
  digester whole, pieces;
  whole.add("ab");
  pieces.add("a").add("b");
  CHECK(whole.result() == pieces.result());
  CHECK(to_string(whole.result()).size() == 32);
}
