#include "runtime/tokenizer/bert_vocabulary.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "runtime/tokenizer/pre_tokenizer.hpp"
#include "runtime/tokenizer/tokenizer_json_parts.hpp"

namespace troupe::runtime {
namespace {

void read_tokens_by_line(std::string_view text, tokenizer_parts& to) {
  std::vector<std::string> tokens;
  while (!text.empty()) {
    auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.ends_with('\r'))
      line.remove_suffix(1);
    tokens.emplace_back(line);
  }
  if (tokens.size() > most_token_ids)
    throw input_error("it has more than {} lines", most_token_ids);
  for (auto id = tokens.size(); id-- > 0;)  // of equal tokens the last one counts
    if (!tokens[id].empty())
      to.own.add(tokens[id], std::int32_t(id));
  to.vocabulary.tokens = std::move(tokens);
}

}  // namespace

tokenizer_parts load_bert_vocabulary(const std::filesystem::path& file, bert_case letters) {
  tokenizer_parts out;
  const auto text = read_text(file);
  if (valid_utf8_prefix(text) < text.size())
    throw input_error("cannot use '{}' as a vocab.txt of BERT: byte {} is not valid UTF-8",
                      file.string(),
                      valid_utf8_prefix(text) + 1);
  read_tokens_by_line(text, out);
  const auto id_of = [&](const char* token) {
    const auto found = out.own.find(token);
    if (!found)
      throw input_error(
          "cannot use '{}' as a vocab.txt of BERT: no line is {}", file.string(), token);
    return *found;
  };
  out.model = word_piece_settings{.unknown = id_of("[UNK]")};
  for (const auto* token : {"[PAD]", "[UNK]", "[CLS]", bert_end_of_document, "[MASK]"})
    out.added.push_back({.id = id_of(token), .content = token, .special = true});
  // Uses the steps of the tokenizer.json that transformers makes from this file.
  const nlohmann::json normal{{"type", "BertNormalizer"},
                              {"lowercase", letters == bert_case::lowered}};
  const nlohmann::json words{{"type", "BertPreTokenizer"}};
  add_normalizer({normal, "normalizer"}, out.normal);
  add_rules({words, "pre_tokenizer"}, out.rules);
  out.decoding.emplace_back(word_piece_decoding{"##"});
  out.frame = {{id_of("[CLS]")}, {id_of(bert_end_of_document)}};
  return out;
}

}  // namespace troupe::runtime
