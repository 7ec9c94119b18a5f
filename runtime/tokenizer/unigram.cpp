#include "runtime/tokenizer/unigram.hpp"

#include "runtime/core/error.hpp"
#include "runtime/tokenizer/expression.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace troupe::runtime {
namespace {

/// The score of an unknown character is this much below the lowest score.
constexpr double unknown_penalty = 10;

/// Maps each piece to its last id.
token_map ids_of(const std::vector<std::string>& pieces) {
  token_map out;
  for (auto id = pieces.size(); id-- > 0;)
    out.add(pieces[id], std::int32_t(id));
  return out;
}

}  // namespace

struct unigram::worker : subword_worker {
  struct best {
    double score = 0;
    std::size_t from = none;  ///< start of the last piece
    std::int32_t id = 0;

    static constexpr auto none = std::numeric_limits<std::size_t>::max();
  };
  std::vector<best> ends_at;

  void shed() override { free_if_large(ends_at); }
};

unigram::unigram(const std::vector<std::string>& pieces, unigram_settings settings)
    : settings_(std::move(settings)), tokens_(ids_of(pieces)), bytes_(tokens_) {
  if (pieces.empty())
    throw input_error("it has no pieces");
  double lowest = std::numeric_limits<double>::infinity();
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    if (!std::isfinite(settings_.scores[id]))
      throw input_error("the score of piece {} is not a finite number", id);
    lowest = std::min(lowest, settings_.scores[id]);
  }
  unknown_score_ = lowest - unknown_penalty;
  make_trie(pieces);
}

void unigram::make_trie(const std::vector<std::string>& pieces) {
  std::vector<std::pair<std::string_view, std::int32_t>> sorted;
  for (const auto& [piece, id] : tokens_)
    if (!piece.empty())
      sorted.emplace_back(piece, id);
  std::sort(sorted.begin(), sorted.end());
  // A node represents the pieces [first, last), which share their first `depth` bytes.
  struct range {
    std::size_t first, last, depth;
    std::uint32_t node;
  };
  nodes_.resize(1);
  std::vector<range> open{{0, sorted.size(), 0, 0}};
  for (std::size_t at = 0; at < open.size(); ++at) {
    auto [first, last, depth, number] = open[at];
    if (first < last && sorted[first].first.size() == depth)
      nodes_[number].id = sorted[first++].second;
    nodes_[number].first_edge = std::uint32_t(edges_.size());
    while (first < last) {
      const auto byte = static_cast<unsigned char>(sorted[first].first[depth]);
      auto end = first;
      while (end < last && static_cast<unsigned char>(sorted[end].first[depth]) == byte)
        ++end;
      if (nodes_.size() == std::numeric_limits<std::uint32_t>::max())
        throw input_error("its {} pieces are too long", pieces.size());
      const auto child = std::uint32_t(nodes_.size());
      nodes_.emplace_back();
      edges_.emplace_back(byte, child);
      ++nodes_[number].edges;
      open.push_back({first, end, depth + 1, child});
      first = end;
    }
  }
}

const unigram::node* unigram::step(const node& from, unsigned char byte) const {
  const auto first = edges_.begin() + from.first_edge, last = first + from.edges;
  const auto found = std::lower_bound(
      first, last, byte, [](const auto& edge, unsigned char x) { return edge.first < x; });
  return found == last || found->first != byte ? nullptr : &nodes_[found->second];
}

std::unique_ptr<subword_worker> unigram::make_worker() const {
  return std::make_unique<worker>();
}

void unigram::append(std::string_view word,
                     std::vector<std::int32_t>& ids,
                     subword_worker& by) const {
  by.known.append(word, ids, [&](std::vector<std::int32_t>& to) {
    append_new(word, to, static_cast<worker&>(by));
  });
}

/// Viterbi search from left to right over the character boundaries.
void unigram::find_best(std::string_view word, worker& by) const {
  auto& ends_at = by.ends_at;
  ends_at.assign(word.size() + 1, {});
  for (std::size_t at = 0; at < word.size();) {
    const auto so_far = ends_at[at].score;
    const auto offer = [&](std::size_t end, double score, std::int32_t id) {
      auto& best = ends_at[end];
      if (best.from == worker::best::none || so_far + score > best.score)
        best = {so_far + score, at, id};
    };
    const auto after = next_character(word, at);
    bool has_single = false;
    const auto* found = nodes_.data();
    for (auto end = at; end < word.size();) {
      found = step(*found, static_cast<unsigned char>(word[end]));
      if (!found)
        break;
      ++end;
      if (found->id < 0)
        continue;
      offer(end, settings_.scores[std::size_t(found->id)], found->id);
      has_single = has_single || end == after;
    }
    if (!has_single) {
      if (!settings_.unknown)
        throw input_error(
            "cannot encode '{}': no piece has it, and the tokenizer has no unknown token",
            word.substr(at, after - at));
      offer(after, unknown_score_, *settings_.unknown);
    }
    at = after;
  }
}

void unigram::append_unknown(std::string_view text, std::vector<std::int32_t>& ids) const {
  if (const auto id = tokens_.find(text))
    return ids.push_back(*id);
  if (!settings_.byte_fallback || !bytes_.append(text, ids))
    ids.push_back(*settings_.unknown);
}

void unigram::append_new(std::string_view word, std::vector<std::int32_t>& ids, worker& by) const {
  find_best(word, by);
  // Reverses the path: `from` at a position becomes the end of the next piece.
  std::size_t next = worker::best::none;
  for (auto end = word.size();;) {
    const auto from = end == 0 ? 0 : by.ends_at[end].from;
    by.ends_at[end].from = next;
    next = end;
    if (end == 0)
      break;
    end = from;
  }
  std::size_t unknown_from = worker::best::none;
  for (std::size_t at = 0; at < word.size();) {
    const auto end = by.ends_at[at].from;
    const auto id = by.ends_at[end].id;
    const bool unknown = settings_.unknown && id == *settings_.unknown;
    if (unknown && unknown_from == worker::best::none)
      unknown_from = at;
    if (!unknown) {
      if (unknown_from != worker::best::none)
        append_unknown(word.substr(unknown_from, at - unknown_from), ids);
      unknown_from = worker::best::none;
      ids.push_back(id);
    }
    at = end;
  }
  if (unknown_from != worker::best::none)
    append_unknown(word.substr(unknown_from), ids);
}

}  // namespace troupe::runtime
