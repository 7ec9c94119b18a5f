// How GGUF names the rules that cut a text into words, and merges as scores.

#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// The types of tokens, with the values of the files.
enum class gguf_token { normal = 1, unknown, control, user_defined, unused, byte };

/// A "tokenizer.ggml.pre" and its parts of a tokenizer.json.
struct gguf_words {
  std::vector<std::string_view> names;  ///< the first one is written
  bool composed = false;                ///< normalizer NFC
  bool digits = false;                  ///< each digit is a word
  std::string_view expression = {};     ///< empty: GPT-2's
  bool whole_words = false;             ///< a word that is a token is not merged
  bool adds_beginning = false;          ///< unless the file says otherwise
};
const std::vector<gguf_words>& all_gguf_words();

nlohmann::json normalizer_of(const gguf_words& x);
nlohmann::json pre_tokenizer_of(const gguf_words& x);
/// True if the parts of a tokenizer.json have the same rules.
bool cuts_as(const gguf_words& x, const nlohmann::json& tokenizer);

using token_pair = std::pair<std::string, std::string>;

/// The merges of a SentencePiece BPE: each pair of tokens whose concatenation is one, by falling
/// score. Ties go by the numbers of the parts.
std::vector<token_pair> merges_of_scores(const std::vector<std::string>& tokens,
                                         const std::vector<float>& scores);
/// The scores that give these merges: tokens without a merge have 0. `tokens` by number.
std::vector<float> scores_of_merges(const std::vector<std::string>& tokens,
                                    const std::vector<token_pair>& merges);

}  // namespace troupe::runtime
