#include "runtime/inference/vector_file.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstring>
#include <filesystem>
#include <vector>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using troupe::tests::scratch_folder;

namespace {

namespace fs = std::filesystem;
const nlohmann::json identity = {{"batch", 2}};

vector_file open(const fs::path& path, bool resume = true) {
  return {path, 3, 2, identity, resume};
}

}  // namespace

TEST_CASE("the header of a .npy file has 128 bytes and the shape", "[vectors]") {
  const auto header = npy_header(12, 768);
  CHECK(header.size() == 128);
  CHECK(header.starts_with(std::string("\x93NUMPY\x01\x00\x76\x00", 10)));
  CHECK_THAT(header, ContainsSubstring("'descr': '<f4'") && ContainsSubstring("(12, 768)"));
  CHECK(header.back() == '\n');
}

TEST_CASE("an interrupted file of vectors continues behind its last durable piece", "[vectors]") {
  const scratch_folder folder;
  const auto path = folder / "x.npy";
  {
    auto file = open(path);
    CHECK(file.progress().rows == 0);
    file.add(std::vector<float>{1, 2}, "{\"row\": 0}\n", {.rows = 1, .input = 1, .at = {10, 2}});
  }
  std::error_code failure;
  CHECK(!fs::exists(path, failure));
  {
    // A piece that was written, but not noted in the journal.
    part_file torn(folder / "x.npy.partial", 128 + 8);
    torn.write("torn", 4);
    torn.sync();
  }
  auto file = open(path);
  CHECK(file.progress().rows == 1);
  CHECK(file.progress().input == 1);
  CHECK(file.progress().at.byte == 10);
  CHECK(file.progress().at.line == 2);
  file.add(std::vector<float>{3, 4, 5, 6}, "{\"row\": 1}\n{\"row\": 2}\n", {.rows = 3});
  file.finish();
  const auto bytes = read_text(path);
  REQUIRE(bytes.size() == 128 + 6 * sizeof(float));
  float found[6];
  std::memcpy(found, bytes.data() + 128, sizeof found);
  CHECK(std::vector<float>(found, found + 6) == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(read_text(folder / "x.jsonl") == "{\"row\": 0}\n{\"row\": 1}\n{\"row\": 2}\n");
  CHECK(!fs::exists(folder / "x.journal", failure));
}

TEST_CASE("a program that was killed between the two last names is finished", "[vectors]") {
  const scratch_folder folder;
  const auto path = folder / "x.npy";
  open(path).add(std::vector<float>{1, 2, 3, 4, 5, 6}, "{}\n{}\n{}\n", {.rows = 3});
  const bool renamed = GENERATE(false, true);
  if (renamed)
    fs::rename(folder / "x.jsonl.partial", folder / "x.jsonl");
  auto file = open(path);
  CHECK(file.progress().rows == 3);
  file.finish();
  CHECK(read_text(folder / "x.jsonl") == "{}\n{}\n{}\n");
  CHECK(read_text(path).size() == 128 + 6 * sizeof(float));
  std::error_code failure;
  CHECK(!fs::exists(folder / "x.journal", failure));
}

TEST_CASE("two programs do not write the same vectors", "[vectors]") {
  const scratch_folder folder;
  const auto first = open(folder / "x.npy");
  CHECK_THROWS_MATCHES(
      open(folder / "x.npy"), input_error, MessageMatches(ContainsSubstring("x.npy")));
}

TEST_CASE("vectors of other settings are not continued unless they begin anew", "[vectors]") {
  const scratch_folder folder;
  const auto path = folder / "x.npy";
  CHECK(vector_file(path, 3, 2, {{"batch", 1}}, true).progress().rows == 0);  // has written nothing
  open(path).add(std::vector<float>{1, 2}, "", {.rows = 1});
  CHECK_BREAKS("VECTORS-1", open(path).finish());
  CHECK_THROWS_MATCHES(vector_file(path, 3, 2, {{"batch", 4}}, true),
                       input_error,
                       MessageMatches(ContainsSubstring("with other inputs or settings")
                                      && ContainsSubstring("x.journal")));
  CHECK(vector_file(path, 3, 2, {{"batch", 4}}, false).progress().rows == 0);
}
