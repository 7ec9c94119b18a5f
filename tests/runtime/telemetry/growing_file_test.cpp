#include "runtime/telemetry/growing_file.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using troupe::tests::scratch_folder;

TEST_CASE("a growing file that was removed starts again with its header", "[log]") {
  const scratch_folder dir;
  std::filesystem::create_directory(dir / "run");
  const auto path = dir / "run/log.csv";
  growing_file file("`watch.csv_file`", path, false);
  file.append("one\n", "header\n");
  CHECK(read_text(path) == "one\n");
  std::filesystem::remove_all(dir / "run");
  CHECK_THROWS_WITH(file.append("two\n", "header\n"),
                    ContainsSubstring("was removed while it was written"));
  std::filesystem::create_directory(dir / "run");
  file.append("two\n", "header\n");
  file.append("three\n", "header\n");
  CHECK(read_text(path) == "header\ntwo\nthree\n");
}

TEST_CASE("a growing file that was removed does not write into another run's file", "[log]") {
  const scratch_folder dir;
  const auto path = dir / "log.jsonl";
  growing_file file("`watch.log_file`", path, false);
  std::filesystem::remove(path);
  const growing_file others("`watch.log_file`", path, false);
  CHECK_THROWS_AS(file.append("mine\n"), io_error);
  CHECK(others.is_empty());
}

TEST_CASE("the newest record of a growing file is replaced in place", "[log]") {
  const scratch_folder dir;
  const auto path = dir / "log.csv";
  growing_file file("`watch.csv_file`", path, false);
  CHECK_FALSE(file.replace_newest("one\n"));  // there is none
  file.append("one\n");
  file.append("two\n");
  CHECK(file.replace_newest("two and more\n"));
  CHECK(file.replace_newest("TWO AND MORE\n"));
  CHECK_FALSE(file.replace_newest("shorter\n"));
  file.append("three\n");
  CHECK(read_text(path) == "one\nTWO AND MORE\nthree\n");
  growing_file other("`watch.csv_file`", path, true);
  CHECK_FALSE(other.replace_newest("three and more\n"));  // it wrote none
  other.append("four\n");
  CHECK_FALSE(file.replace_newest("three and more\n"));
  std::filesystem::remove(path);
  file.append("five\n", "header\n");
  CHECK(file.replace_newest("five and more\n"));
  CHECK(read_text(path) == "header\nfive and more\n");
  std::filesystem::remove(path);
  CHECK_FALSE(file.replace_newest("five and even more\n"));
}

TEST_CASE("a stream that cannot be changed keeps its records", "[log]") {
  growing_file file("`watch.csv_file`", "/dev/null", false);
  file.append("one\n");
  CHECK_FALSE(file.replace_newest("one and more\n"));
}
