#include "runtime/core/file.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/core/progress.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

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

TEST_CASE("a missing file, a folder and an empty file are told apart", "[core]") {
  const troupe::tests::scratch_folder folder;
  CHECK_THROWS_WITH(mapped_file(folder / "none"), ContainsSubstring("No such file"));
  CHECK_THROWS_WITH(mapped_file(folder.path()), ContainsSubstring("folder"));
  write_text(folder / "empty", "");
  CHECK(mapped_file(folder / "empty").bytes().empty());
}

TEST_CASE("writing where one cannot says where and why", "[core]") {
  CHECK_THROWS_AS(file_writer("/proc/nowhere/x"), io_error);
  CHECK_THROWS_WITH(write_text("/dev/full/x", "a"), ContainsSubstring("/dev/full/x"));
}

TEST_CASE("hashes equal their published values", "[core]") {
  sha256 h;
  h.add("abc", 3);
  CHECK(h.hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hash64("") == 0x2d06800538d394c2ULL);  // XXH3_64bits of nothing, seed 0
  digester whole, pieces;
  whole.add("ab");
  pieces.add("a").add("b");
  CHECK(whole.result() == pieces.result());
  CHECK(to_string(whole.result()).size() == 32);
}

TEST_CASE("bytes are shown in units that people read", "[core]") {
  CHECK(human_bytes(12) == "12 B");
  CHECK(human_bytes(1500) == "1.5 kB");
  CHECK(human_bytes(2.5e9) == "2.5 GB");
}
