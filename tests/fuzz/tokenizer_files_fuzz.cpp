// Fuzzes BERT's vocab.txt, a tiktoken file in either form, and a text to encode.

#include "runtime/tokenizer/tokenizer.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <fmt/format.h>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

/// Base64 (RFC 4648) of up to three bytes.
std::string base64(std::string_view bytes) {
  constexpr std::string_view alphabet
      = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  unsigned all = 0;
  for (std::size_t i = 0; i < 3; ++i)
    all = all << 8 | (i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0U);
  std::string out;
  for (std::size_t i = 0; i < 4; ++i)
    out += i <= bytes.size() ? alphabet[all >> (18 - 6 * i) & 63] : '=';
  return out;
}

std::string lines(bool as_json) {
  std::string out = as_json ? "[" : "";
  for (int rank = 0; rank < 260; ++rank) {
    const char bytes[] = {rank < 256 ? char(rank) : 't', char("heh "[rank % 4])};
    const auto token = base64({bytes, rank < 256 ? 1U : 2U});
    out += as_json ? fmt::format(
               "{}{{\"rank\":{},\"token_bytes\":\"{}\"}}", rank ? "," : "", rank, token)
                   : fmt::format("{} {}\n", token, rank);
  }
  return out + (as_json ? "]" : "");
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  const std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n##n\nt\n\xc3\xa9\n";
  const std::string text = "Then \xc3\xa9t\xc3\xa9 [SEP]\xff<|endoftext|> the";
  return {joined({vocabulary, lines(false), text}), joined({vocabulary, lines(true), text})};
}

std::vector<std::string> fuzz::dictionary() {
  return {"[UNK]\n",
          "##",
          "AA== ",
          " 259\n",
          "\"rank\":",
          "\"token_bytes\":",
          std::string(section_mark)};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parts = fuzz::sections(fuzz::text_of(data, size), 3);
  fuzz::put(fuzz::folder() / "vocab.txt", parts[0]);
  fuzz::put(fuzz::folder() / "ranks", parts[1]);
  const bool json = parts[1].starts_with("[");
  for (const auto& choice : {tokenizer_choice{.type = "BertWordPieceLowerCase",
                            .vocab_file = fuzz::folder() / "vocab.txt"},
                             tokenizer_choice{.type = "TikTokenizer",
                             .vocabulary_size = 269,
                             .model = fuzz::folder() / "ranks",
                             .pattern = json ? "v2" : "cl100k_base",
                             .special_tokens = 9}})
    fuzz::accepted([&] {
      const auto with = make_tokenizer(choice);
      for (const auto specials : {special_tokens::as_text, special_tokens::recognised})
        with->decode(with->encode(parts[2], specials));
    });
  return 0;
}
