#include "runtime/data/dataset_manifest.hpp"

#include "tests/runtime/data/golden.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;

namespace {

const dataset_manifest bpe = {.tokenizer = "GPT2BPETokenizer",
                              .fingerprint = "ab",
                              .vocabulary = 300,
                              .end_of_document = 299};

}  // namespace

TEST_CASE("a data set records the tokenizer of its ids", "[data]") {
  const scratch_folder folder;
  CHECK_FALSE(read_manifest(folder / "x"));
  {
    indexed_dataset_builder out(folder / "x", 300);
    out.finish(bpe);
  }
  CHECK(read_manifest(folder / "x") == bpe);
  CHECK(manifest_path(folder / "a.b") == folder / "a.b.manifest.json");
  write_dataset(folder / "x", 300, {{1}});  // without a tokenizer in the manifest
  CHECK_FALSE(read_manifest(folder / "x"));
}

TEST_CASE("ids differ if a text tokenizer differs", "[data]") {
  auto other = bpe;
  CHECK_FALSE(have_other_ids(bpe, other));
  other.end_of_document = 0;
  CHECK(have_other_ids(bpe, other));
  other = bpe;
  other.fingerprint = "cd";
  CHECK(have_other_ids(bpe, other));
  other.tokenizer = "NullTokenizer";
  CHECK_FALSE(have_other_ids(bpe, other));
  CHECK_FALSE(have_other_ids(other, bpe));
}

TEST_CASE("an unreadable manifest is named", "[data]") {
  const scratch_folder folder;
  for (const auto* const text :
       {"",
        "{",
        "[]",
        R"({"format": 1})",
        R"({"format": 1, "tokenizer": 3})",
        R"({"format": 1, "tokenizer": {"type": 3, "fingerprint": "x"}})",
        R"({"format": 1, "tokenizer": {"type": "NullTokenizer", "fingerprint": "x",
            "vocabulary_size": 5e24, "end_of_document": 1}})",
        R"({"format": 1, "tokenizer": {"type": "NullTokenizer", "fingerprint": "x",
            "vocabulary_size": 3, "end_of_document": 1.5}})"}) {
    write_text(manifest_path(folder / "x"), text);
    CHECK_THROWS_WITH(read_manifest(folder / "x"),
                      ContainsSubstring("x.manifest.json") && ContainsSubstring("damaged"));
  }
  write_text(manifest_path(folder / "x"), R"({"format": 2})");
  CHECK_THROWS_WITH(read_manifest(folder / "x"), ContainsSubstring("it is of format 2"));
}
