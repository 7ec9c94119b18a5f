// Fuzzes <output prefix>.journal, which a killed preprocess leaves.

#include "runtime/data/preprocess_journal.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

preprocess_journal journal_at(const char* name) {
  return {fuzz::folder() / name,
          {{"inputs", {"a", "b"}}, {"json_keys", {"text", "title"}}, {"workers", 2}}};
}

std::vector<std::int64_t> numbers_of(const preprocess_progress& x) {
  std::vector<std::int64_t> out
      = {std::int64_t(x.input), std::int64_t(x.at.byte), std::int64_t(x.at.line), x.read};
  for (const auto& one : x.by_key)
    out.insert(out.end(),
               {one.dataset.documents,
                one.dataset.sequences,
                one.dataset.tokens,
                std::int64_t(one.bytes),
                one.empty_documents});
  return out;
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> out;
  for (const bool read : {false, true}) {
    const auto journal = journal_at("seed");
    journal.write({.input = 1,
                   .at = {.byte = 700, .line = 9},
                   .by_key = {{.dataset = {3, 4, 50}, .bytes = 200, .empty_documents = 1},
                              {.dataset = {3, 3, 20}, .bytes = 90}},
                   .read = read});
    out.push_back(fuzz::get(journal.path()));
    journal.write({.at = {.byte = 7}, .by_key = {{}, {}}, .read = read});
    out.push_back(fuzz::get(journal.path()));
  }
  return out;
}

std::vector<std::string> fuzz::dictionary() {
  return {"\"format\": 2",
          "null",
          "-1",
          "1e999",
          "18446744073709551615",
          "[[[[",
          "{}",
          "[]",
          "\"progress\"",
          "\"identity\"",
          "\"by_key\": [",
          "true",
          "\\u0000",
          "\x1b"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto journal = journal_at("x");
  fuzz::put(journal.path(), fuzz::text_of(data, size));
  journal.identity_left();
  fuzz::accepted([&] {
    const auto found = journal.read();
    if (!found)
      return;
    fuzz::require(found->input < 2 && found->by_key.size() == 2, "the journal matches the inputs");
    for (const auto number : numbers_of(*found))
      fuzz::require(number >= 0, "no number is negative");
    journal.write(*found);
    fuzz::require(numbers_of(journal.read().value()) == numbers_of(*found),
                  "a journal survives a round trip");
  });
  return 0;
}
