#include "runtime/tokenizer/bpe_tokenizer.hpp"

#include "runtime/core/error.hpp"
#include "runtime/tokenizer/byte_alphabet.hpp"

namespace troupe::runtime {

digest fingerprint_of(const bpe_vocabulary& x) {
  digester all;
  all.add(fmt::format("{} {} tokens, {} merges, end {}\n",
                      bpe_tokenizer::type_name,
                      x.tokens.size(),
                      x.merges.size(),
                      x.end_of_document));
  for (const auto& token : x.tokens)
    all.add(fmt::format("{} {}\n", token.size(), token));
  for (const auto& merge : x.merges)
    all.add(fmt::format("{} {}\n", merge.left, merge.right));
  return all.result();
}

bpe_tokenizer::bpe_tokenizer(bpe_vocabulary vocabulary)
    : vocabulary_(std::move(vocabulary)),
      fingerprint_(fingerprint_of(vocabulary_)),
      model_(vocabulary_.merges, vocabulary_.byte_ids, merge_order::rank_by_rank) {
  for (const auto& token : vocabulary_.tokens)
    bytes_.push_back(to_bytes(token).value_or(token));
}

std::int32_t bpe_tokenizer::vocabulary_size() const {
  return static_cast<std::int32_t>(vocabulary_.tokens.size());
}

void bpe_tokenizer::append(std::string_view text,
                           std::vector<std::int32_t>& ids,
                           special_tokens specials) const {
  constexpr std::string_view end_text = end_of_document_text;
  const auto by = workers_.take([this] { return model_.make_worker(); });
  if (specials == special_tokens::recognised)
    for (auto at = text.find(end_text); at != text.npos; at = text.find(end_text)) {
      append_words(text.substr(0, at), ids, *by);
      ids.push_back(end_of_document());
      text.remove_prefix(at + end_text.size());
    }
  append_words(text, ids, *by);
}

void bpe_tokenizer::append_words(std::string_view text,
                                 std::vector<std::int32_t>& ids,
                                 subword_worker& by) const {
  word_cursor words(cut_, text);
  for (auto word = words.next(); !word.empty(); word = words.next())
    model_.append(word, ids, by);
}

std::string bpe_tokenizer::decode(std::span<const std::int32_t> ids) const {
  return joined(ids, bytes_);
}

void bpe_tokenizer::save(const std::filesystem::path& folder) const {
  save_bpe_vocabulary(vocabulary_, folder);
}

}  // namespace troupe::runtime
