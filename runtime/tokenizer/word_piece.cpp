#include "runtime/tokenizer/word_piece.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

bool within_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

std::int32_t required(std::optional<std::int32_t> unknown, std::string_view word) {
  if (!unknown)
    throw input_error(
        "cannot encode '{}': the vocabulary does not have it and has no unknown token",
        word.substr(0, 80));
  return *unknown;
}

}  // namespace

word_piece::word_piece(token_map tokens, word_piece_settings settings)
    : tokens_(std::move(tokens)), settings_(std::move(settings)) {
  for (const auto& [token, id] : tokens_)
    longest_ = std::max(longest_, token.size());
}

std::unique_ptr<subword_worker> word_piece::make_worker() const {
  return std::make_unique<subword_worker>();
}

void word_piece::append(std::string_view word,
                        std::vector<std::int32_t>& ids,
                        subword_worker& by) const {
  by.known.append(word, ids, [&](std::vector<std::int32_t>& to) { append_new(word, to); });
}

void word_piece::append_unknown(std::string_view word, std::vector<std::int32_t>& ids) const {
  ids.push_back(required(settings_.unknown, word));
}

void word_piece::append_new(std::string_view word, std::vector<std::int32_t>& ids) const {
  const auto characters
      = word.size() - std::size_t(std::count_if(word.begin(), word.end(), within_character));
  if (characters > settings_.longest_word)
    return append_unknown(word, ids);
  const auto before = ids.size();
  std::string piece;
  for (std::size_t at = 0; at < word.size();) {
    piece = at == 0 ? "" : settings_.prefix;
    const auto prefix = piece.size();
    piece += word.substr(at, longest_);
    auto id = tokens_.find(piece);
    while (!id && piece.size() > prefix) {
      while (within_character(piece.back()) && piece.size() > prefix + 1)
        piece.pop_back();
      piece.pop_back();
      if (piece.size() > prefix)
        id = tokens_.find(piece);
    }
    if (!id) {
      ids.resize(before);
      return append_unknown(word, ids);
    }
    ids.push_back(*id);
    at += piece.size() - prefix;
  }
}

word_level::word_level(token_map tokens, std::optional<std::int32_t> unknown)
    : tokens_(std::move(tokens)), unknown_(unknown) {}

std::unique_ptr<subword_worker> word_level::make_worker() const {
  return std::make_unique<subword_worker>();
}

void word_level::append(std::string_view word,
                        std::vector<std::int32_t>& ids,
                        subword_worker&) const {
  const auto found = tokens_.find(word);
  ids.push_back(found ? *found : required(unknown_, word));
}

}  // namespace troupe::runtime
