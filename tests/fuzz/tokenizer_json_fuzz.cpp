// Fuzzes tokenizer.json, the files beside it, and a text to encode.

#include "runtime/core/json_text.hpp"
#include "runtime/tokenizer/byte_alphabet.hpp"
#include "runtime/tokenizer/pipeline_tokenizer.hpp"
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
  const json metaspace{
      {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}};
  const auto unigram = json::parse(
      R"({"type": "Unigram", "unk_id": 0, "byte_fallback": true, "vocab":
          [["<unk>", 0], ["\u2581", -1.5], ["t", -2], ["the", -1], ["<0xC3>", -3]]})");
  const json pieces{{"type", "WordPiece"},
                    {"unk_token", "u"},
                    {"continuing_subword_prefix", "##"},
                    {"max_input_chars_per_word", 100},
                    {"vocab", {{"u", 0}, {"t", 1}, {"##he", 2}, {"on", 3}}}};
  const auto characters = json::parse(
      R"({"type": "BPE", "unk_token": "u", "fuse_unk": true, "byte_fallback": true,
          "end_of_word_suffix": "</w>", "merges": ["t h"],
          "vocab": {"u": 0, "t": 1, "h": 2, "th": 3, "e</w>": 4}})");
  const auto around = [](const json& model, const json& parts) {
    json file{
        {"added_tokens",
         {{{"id", model["vocab"].size()}, {"content", "<|endoftext|>"}, {"special", true}}}},
        {"post_processor",
         {{"type", "TemplateProcessing"},
          {"single", json::parse(R"([{"SpecialToken": {"id": "t"}}, {"Sequence": {"id": "A"}}])")},
          {"special_tokens", {{"t", {{"ids", {1}}}}}}}},
        {"model", model}};
    file.update(parts);
    return json_text(file);
  };
  const json bert{{"normalizer", {{"type", "BertNormalizer"}, {"lowercase", true}}},
                  {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                  {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}}};
  const json spaces{
      {"normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "BAAAAAAEAABhAGIA"}}},
      {"pre_tokenizer", metaspace},
      {"decoder",
       {{"type", "Sequence"},
        {"decoders", {{{"type", "ByteFallback"}}, {{"type", "Fuse"}}, metaspace}}}}};
  const std::string end = R"({"eos_token": {"content": "<|endoftext|>"}})";
  const std::string text = "the \xc3\xa9t\xc3\xa9 on 123<|endoftext|> e\xcc\x81 \xff'S";
  return {
      joined({around(unigram, spaces), end, text}),
      joined({around(pieces, bert), end, text}),
      joined({around(characters, {{"decoder", {{"type", "BPEDecoder"}, {"suffix", "</w>"}}}}),
              end,
              text}),
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
          "\"added_tokens_decoder\":{\"260\":{\"content\":\"x\"}}",
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
      with->frame();
      const auto ids = with->encode(parts[2], specials);
      with->decode(ids);
    }
  });
  return 0;
}
