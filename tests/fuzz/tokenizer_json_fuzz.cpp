// tokenizer.json, what lies beside it, and a text to encode.

#include "runtime/core/json_text.hpp"
#include "runtime/tokenizer/byte_alphabet.hpp"
#include "runtime/tokenizer/json_tokenizer.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace troupe::runtime;
using namespace troupe::tests;
using json = nlohmann::json;

namespace {

std::string file_of(const json& normalizer, const json& pre_tokenizer) {
  json vocab;
  for (int byte = 0; byte < 256; ++byte)
    vocab[std::string(character_of(std::uint8_t(byte)))] = byte;
  vocab["th"] = 256;
  vocab["the"] = 257;
  return json_text(
      json{{"added_tokens",
            {{{"id", 258}, {"content", "<|endoftext|>"}, {"special", true}},
             {{"id", 259}, {"content", "on"}, {"single_word", true}, {"lstrip", true}}}},
           {"normalizer", normalizer},
           {"pre_tokenizer", pre_tokenizer},
           {"decoder", {{"type", "ByteLevel"}}},
           {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"t h", "th e"}}}}});
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  const json bytes{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const json split{{"type", "Split"},
                   {"pattern", {{"Regex", R"((?i:'s)|\p{N}{1,3}| ?[^\s\p{L}]+|\s+(?!\S)|\w+)"}}},
                   {"behavior", "Isolated"},
                   {"invert", false}};
  const std::string end = R"({"eos_token": {"content": "<|endoftext|>"}})";
  const std::string text = "the \xc3\xa9t\xc3\xa9 on 123<|endoftext|> e\xcc\x81 \xff'S";
  return {
      joined({file_of(nullptr, {{"type", "ByteLevel"}, {"add_prefix_space", true}}), end, text}),
      joined({file_of({{"type", "NFC"}}, {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}}),
              end,
              text})};
}

std::vector<std::string> fuzz::dictionary() {
  return {"\"type\":\"Sequence\"",
          "\"type\":\"NFKD\"",
          "\"type\":\"Replace\",\"pattern\":{\"String\":\"e\"},\"content\":\"\"",
          "\"behavior\":\"MergedWithNext\"",
          "\"invert\":true",
          "\"ignore_merges\":true",
          "\"normalized\":true",
          "(a*)*b",
          "(?R)",
          "[^\\s",
          "\\p{Lu}",
          "16777215",
          std::string(section_mark)};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parts = fuzz::sections(fuzz::text_of(data, size), 3);
  fuzz::put(fuzz::folder() / "tokenizer.json", parts[0]);
  fuzz::put(fuzz::folder() / "tokenizer_config.json", parts[1]);
  fuzz::accepted([&] {
    const auto with = make_tokenizer(tokenizer_in(fuzz::folder()));
    for (const auto specials : {special_tokens::as_text, special_tokens::recognised}) {
      const auto ids = with->encode(parts[2], specials);
      with->decode(ids);
    }
  });
  return 0;
}
