// What lies beside a data set: the manifest of its tokenizer, and the journal of a preprocess that
// did not end.

#include "runtime/data/dataset_manifest.hpp"
#include "runtime/data/preprocess_journal.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <nlohmann/json.hpp>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

const nlohmann::json identity = {{"inputs", {"a.txt"}}, {"json_keys", {"text"}}};

}  // namespace

std::vector<std::string> fuzz::seeds() {
  const auto prefix = fuzz::folder() / "seed";
  write_manifest(prefix,
                 dataset_manifest{.tokenizer = "HuggingFaceTokenizer",
                                  .fingerprint = std::string(32, 'a'),
                                  .vocabulary = 300,
                                  .end_of_document = 2});
  const preprocess_journal journal(prefix, identity);
  preprocess_progress at;
  at.by_key.resize(1);
  at.at.byte = 7;
  journal.write(at);
  auto began = fuzz::get(journal.path());
  at.read = true;
  journal.write(at);
  return {fuzz::get(manifest_path(prefix)), began, fuzz::get(journal.path())};
}

std::vector<std::string> fuzz::dictionary() {
  return {"null",
          "-1",
          "1e999",
          "18446744073709551616",
          "[]",
          "{}",
          "\"format\"",
          "true",
          "\"progress\""};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto prefix = fuzz::folder() / "set";
  fuzz::put(manifest_path(prefix), fuzz::text_of(data, size));
  fuzz::accepted([&] {
    const auto found = read_manifest(prefix);
    fuzz::require(found.has_value(), "a manifest that is there is read or refused");
    write_manifest(prefix, found);
    fuzz::require(read_manifest(prefix) == found, "a manifest comes back from its file");
  });
  const preprocess_journal journal(prefix, identity);
  fuzz::put(journal.path(), fuzz::text_of(data, size));
  journal.identity_left();
  fuzz::accepted([&] {
    if (const auto at = journal.read()) {
      fuzz::require(at->by_key.size() == 1, "a journal tells of each data set");
      fuzz::require(at->input == 0, "a journal tells of inputs that there are");
    }
  });
  return 0;
}
