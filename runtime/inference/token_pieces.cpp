#include "runtime/inference/token_pieces.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace troupe::runtime {
namespace {

token_pieces::tree tree_of(const std::vector<std::string>& pieces) {
  std::vector<std::int32_t> order;
  for (std::size_t id = 0; id < pieces.size(); ++id)
    if (!pieces[id].empty() && pieces[id].size() <= std::numeric_limits<std::uint16_t>::max())
      order.push_back(std::int32_t(id));
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return pieces[std::size_t(a)] < pieces[std::size_t(b)];
  });
  token_pieces::tree out;
  std::vector<std::size_t> path;  // nodes of the last piece
  std::string_view last;
  const auto close = [&](std::size_t depth) {
    for (; path.size() > depth; path.pop_back())
      out.nodes[path.back()].end = std::int32_t(out.nodes.size());
  };
  for (const auto id : order) {
    const std::string_view piece = pieces[std::size_t(id)];
    const auto same = std::mismatch(last.begin(), last.end(), piece.begin(), piece.end()).first;
    close(std::size_t(same - last.begin()));
    while (path.size() < piece.size()) {
      path.push_back(out.nodes.size());
      out.nodes.push_back({.byte = std::uint8_t(piece[path.size() - 1]),
                           .depth = std::uint16_t(path.size()),
                           .end = 0,
                           .first_token = std::int32_t(out.tokens.size())});
    }
    out.tokens.push_back(id);
    out.deepest = std::max(out.deepest, piece.size());
    last = piece;
  }
  close(0);
  out.nodes.push_back(
      {.byte = 0, .depth = 0, .end = 0, .first_token = std::int32_t(out.tokens.size())});
  return out;
}

std::vector<std::string> pieces_of(const tokenizer& of, bool first) {
  if (!of.has_own_pieces())
    throw input_error(
        "texts of this model cannot be constrained: its tokenizer ends words by the next token (a "
        "BPEDecoder)");
  std::vector<std::string> out;
  for (std::int32_t id = 0; id < of.vocabulary_size(); ++id)
    out.push_back(of.is_special(id) ? std::string()
                                    : of.piece(id, first ? std::nullopt : std::optional(id)));
  return out;
}

}  // namespace

token_pieces::token_pieces(const tokenizer& of)
    : token_pieces(pieces_of(of, true), pieces_of(of, false)) {}

token_pieces::token_pieces(std::vector<std::string> first, std::vector<std::string> later)
    : first_(std::move(first)),
      later_(std::move(later)),
      differs_(first_ != later_),
      later_tree_(tree_of(later_)) {
  ensure(first_.size() == later_.size(), "PIECES-1: a token has a piece at each place");
  if (differs_)
    first_tree_ = tree_of(first_);
  else
    first_ = {};
}

std::string_view token_pieces::bytes(std::int32_t token, bool first) const {
  if (token < 0 || token >= size())
    return {};
  return (first && differs_ ? first_ : later_)[std::size_t(token)];
}

byte_set token_pieces::single_bytes() const {
  byte_set out;
  for (const auto& piece : later_)
    if (piece.size() == 1)
      out.set(std::uint8_t(piece.front()));
  return out;
}

}  // namespace troupe::runtime
