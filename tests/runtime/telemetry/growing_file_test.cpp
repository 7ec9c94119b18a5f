#include "runtime/telemetry/growing_file.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/file.hpp"
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
