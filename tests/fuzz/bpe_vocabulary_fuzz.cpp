// Fuzzes vocab.json, merges.txt and a text to encode.

#include "runtime/tokenizer/bpe_tokenizer.hpp"
#include "runtime/tokenizer/bpe_trainer.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace troupe::runtime;
using namespace troupe::tests;

std::vector<std::string> fuzz::seeds() {
  bpe_trainer trainer;
  trainer.add(
      "the theme of the other thesis, then: \xc3\xa9t\xc3\xa9, l'\xc3\xa9t\xc3\xa9 <|endoftext|>");
  std::vector<std::string> out;
  for (const int tokens : {257, 266}) {
    save_bpe_vocabulary(trainer.train({.vocabulary_size = tokens}), folder());
    out.push_back(joined(
        {get(folder() / "vocab.json"), get(folder() / "merges.txt"), "then the \xe9t\xc3\xa9"}));
  }
  return out;
}

std::vector<std::string> fuzz::dictionary() {
  return {"<|endoftext|>",
          "\xc4\xa0",
          "#version: 0.2\n",
          "t h\n",
          "th e\n",
          "\": 256",
          "\\u0120",
          std::string(section_mark)};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parts = fuzz::sections(fuzz::text_of(data, size), 3);
  const auto vocab = fuzz::folder() / "x.json", merges = fuzz::folder() / "x.txt";
  fuzz::put(vocab, parts[0]);
  fuzz::put(merges, parts[1]);
  fuzz::accepted([&] {
    const auto found = load_bpe_vocabulary(vocab, merges);
    const bpe_tokenizer with(found);
    const auto ids = with.encode(parts[2]);
    fuzz::require(with.decode(ids) == parts[2], "any bytes survive encoding and decoding");
    with.encode(parts[2], special_tokens::recognised);
    with.save(fuzz::folder() / "again");
    fuzz::require(load_bpe_vocabulary(fuzz::folder() / "again/vocab.json",
                                      fuzz::folder() / "again/merges.txt")
                      == found,
                  "a vocabulary survives a round trip");
  });
  return 0;
}
