// Fuzzes <prefix>.manifest.json beside a data set.

#include "runtime/data/dataset_manifest.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace troupe::runtime;
using namespace troupe::tests;

std::vector<std::string> fuzz::seeds() {
  const auto prefix = fuzz::folder() / "seed";
  std::vector<std::string> out;
  for (const auto& manifest : {dataset_manifest{.tokenizer = "GPT2BPETokenizer",
                              .fingerprint = "0a1b2c",
                              .vocabulary = 50257,
                              .end_of_document = 50256},
                               dataset_manifest{.tokenizer = "HuggingFaceTokenizer",
                               .fingerprint = std::string(32, 'a'),
                               .vocabulary = 300,
                               .end_of_document = 2}}) {
    write_manifest(prefix, manifest);
    out.push_back(fuzz::get(manifest_path(prefix)));
  }
  return out;
}

std::vector<std::string> fuzz::dictionary() {
  return {"\"format\"",
          "\"format\": 2",
          "null",
          "-1",
          "1e999",
          "18446744073709551615",
          "18446744073709551616",
          "\"NullTokenizer\"",
          "[[[[",
          "{}",
          "[]",
          "true",
          "\\u0000",
          "\x1b"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto prefix = fuzz::folder() / "x";
  fuzz::put(manifest_path(prefix), fuzz::text_of(data, size));
  fuzz::accepted([&] {
    const auto found = read_manifest(prefix);
    fuzz::require(found.has_value(), "an existing manifest is read");
    fuzz::require(!have_other_ids(*found, *found), "a data set has the same ids as itself");
    to_text(*found);
    write_manifest(prefix, found);
    fuzz::require(read_manifest(prefix) == found, "a manifest survives a round trip");
  });
  return 0;
}
