#include "runtime/tokenizer/piece_bpe.hpp"

#include "runtime/tokenizer/expression.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

constexpr std::string_view space_mark = "\u2581";  // SentencePiece's replacement of a space

}  // namespace

piece_bpe::piece_bpe(std::vector<bpe_merge> merges, token_map tokens, piece_bpe_settings settings)
    : tokens_(std::move(tokens)),
      settings_(std::move(settings)),
      bytes_(tokens_),
      cut_at_spaces_(is_cut_at_spaces()),
      merger_(std::move(merges), merge_order::one_by_one) {
  if (settings_.prefix.empty() && settings_.suffix.empty())
    for (char c = 0; c >= 0; ++c) {
      ascii_.push_back(tokens_.find(std::string_view(&c, 1)).value_or(-1));
      if (c == 0x7F)
        break;
    }
}

/// True if no merge crosses the boundary before a space mark that follows another character. A text
/// that is a single word (Llama 2's) can then be split into short parts, which the cache mostly
/// knows.
bool piece_bpe::is_cut_at_spaces() const {
  if (!settings_.prefix.empty() || !settings_.suffix.empty() || settings_.whole_words
      || !tokens_.find(space_mark))
    return false;
  return std::none_of(tokens_.begin(), tokens_.end(), [](const auto& one) {
    const std::string_view token = one.first;
    for (auto at = token.find(space_mark, 1); at != token.npos; at = token.find(space_mark, at + 1))
      if (at < space_mark.size()
          || token.substr(at - space_mark.size(), space_mark.size()) != space_mark)
        return true;
    return false;
  });
}

std::unique_ptr<subword_worker> piece_bpe::make_worker() const {
  return std::make_unique<bpe_worker>();
}

void piece_bpe::append(std::string_view word,
                       std::vector<std::int32_t>& ids,
                       subword_worker& by) const {
  const auto part = [&](std::string_view text) {
    by.known.append(text, ids, [&](std::vector<std::int32_t>& to) {
      append_new(text, to, static_cast<bpe_worker&>(by));
    });
  };
  if (!cut_at_spaces_)
    return part(word);
  while (!word.empty()) {
    std::size_t marks = 0;
    while (word.substr(marks).starts_with(space_mark))
      marks += space_mark.size();
    const auto end = std::min(word.find(space_mark, marks), word.size());
    part(word.substr(0, end));
    word.remove_prefix(end);
  }
}

std::optional<std::int32_t> piece_bpe::token_of(std::string_view character,
                                                bool first,
                                                bool last) const {
  if (!ascii_.empty() && character.size() == 1) {
    const auto id = ascii_[static_cast<unsigned char>(character.front())];
    return id < 0 ? std::nullopt : std::optional(id);
  }
  if (ascii_.empty() && (!first || last))
    return tokens_.find((first ? "" : settings_.prefix) + std::string(character)
                        + (last ? settings_.suffix : ""));
  return tokens_.find(character);
}

void piece_bpe::append_new(std::string_view word,
                           std::vector<std::int32_t>& ids,
                           bpe_worker& by) const {
  if (settings_.whole_words)
    if (const auto whole = tokens_.find(word))
      return ids.push_back(*whole);
  by.begin();
  bool unknown = false;  // one unknown token is pending; the library adds it after the bytes of
                         // later characters
  std::vector<std::int32_t> bytes;
  for (std::size_t at = 0; at < word.size();) {
    const auto end = next_character(word, at);
    const bool first = at == 0, last = end == word.size();
    const auto character = word.substr(at, end - at);
    at = end;
    if (const auto id = token_of(character, first, last)) {
      if (std::exchange(unknown, false))
        by.add(*settings_.unknown);
      by.add(*id);
      continue;
    }
    bytes.clear();
    if (settings_.byte_fallback
        && bytes_.append((first ? "" : settings_.prefix) + std::string(character)
                             + (last ? settings_.suffix : ""),
                         bytes)) {
      for (const auto id : bytes)
        by.add(id);
    } else if (settings_.unknown) {
      if (unknown && !settings_.fuse_unknown)
        by.add(*settings_.unknown);
      unknown = true;
    }
  }
  if (unknown)
    by.add(*settings_.unknown);
  merger_.append(ids, by);
}

}  // namespace troupe::runtime
