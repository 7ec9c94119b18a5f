#include "runtime/tokenizer/bpe_tokenizer.hpp"

#include "runtime/core/error.hpp"
#include "runtime/tokenizer/byte_alphabet.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <mutex>

namespace troupe::runtime {

/// Pair of tokens to rank of its merge: open addressing, at most half full, because this lookup is
/// where encoding spends its time.
struct bpe_tokenizer::ranks {
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  explicit ranks(const std::vector<bpe_merge>& merges)
      : slots(std::bit_ceil(2 * merges.size() + 2)), shift(64 - std::countr_zero(slots.size())) {
    for (std::size_t rank = 0; rank < merges.size(); ++rank) {
      auto& empty = slots[find(merges[rank].left, merges[rank].right)];
      ensure(empty.rank == none, "BPE-1: no pair of bpe_vocabulary::merges occurs twice");
      empty = {merges[rank].left, merges[rank].right, static_cast<std::uint32_t>(rank)};
    }
  }

  std::uint32_t of(std::int32_t left, std::int32_t right) const {
    return slots[find(left, right)].rank;
  }

  std::size_t find(std::int32_t left, std::int32_t right) const {
    const auto key = std::uint64_t(std::uint32_t(left)) << 32 | std::uint32_t(right);
    auto at = static_cast<std::size_t>((key * 0x9E3779B97F4A7C15ULL) >> shift);
    while (slots[at].rank != none && (slots[at].left != left || slots[at].right != right))
      at = (at + 1) & (slots.size() - 1);
    return at;
  }

  struct slot {
    std::int32_t left = 0;
    std::int32_t right = 0;
    std::uint32_t rank = none;
  };
  std::vector<slot> slots;
  int shift;
};

/// What one call of append needs: room to merge a word in, and the words met lately. The cache is
/// direct-mapped: it never grows, and a word only ever displaces the one in its own slot.
struct bpe_tokenizer::worker {
  static constexpr std::size_t cached_words = 1 << 14;
  static constexpr std::size_t longest_cached = 48;
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  struct piece {
    std::int32_t id;         ///< -1: merged into the piece before
    std::uint32_t previous;  ///< `none` at the ends of the word
    std::uint32_t next;
  };
  struct candidate {
    std::uint32_t rank;
    std::uint32_t at;  ///< the left piece

    friend bool operator>(const candidate& a, const candidate& b) {
      return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
    }
  };
  struct known_word {
    std::string word;
    std::vector<std::int32_t> ids;
  };

  void propose(std::uint32_t at, const ranks& merges) {
    if (at == none || pieces[at].next == none)
      return;
    const auto rank = merges.of(pieces[at].id, pieces[pieces[at].next].id);
    if (rank != ranks::none)
      found.push_back({rank, at});
  }

  bool applies(const bpe_merge& merge, std::uint32_t at) const {
    const auto& left = pieces[at];
    return left.id == merge.left && left.next != none && pieces[left.next].id == merge.right;
  }

  void apply(const bpe_merge& merge, std::uint32_t at) {
    auto& left = pieces[at];
    auto& right = pieces[left.next];
    left.id = merge.result;
    left.next = right.next;
    right.id = -1;
    if (left.next != none)
      pieces[left.next].previous = at;
  }

  /// Merges `pieces` until no merge applies.
  void merge_all(const std::vector<bpe_merge>& merges, const ranks& merge_ranks);

  std::vector<piece> pieces;
  std::vector<candidate> found;      ///< heap, lowest rank and then leftmost first; may be stale
  std::vector<std::uint32_t> batch;  ///< candidates of one rank
  std::vector<known_word> known = std::vector<known_word>(cached_words);
};

struct bpe_tokenizer::worker_pool {
  std::unique_ptr<worker> take() {
    {
      const std::lock_guard lock(guard);
      if (!idle.empty()) {
        auto taken = std::move(idle.back());
        idle.pop_back();
        return taken;
      }
    }
    return std::make_unique<worker>();
  }

  void give_back(std::unique_ptr<worker> x) {
    const std::lock_guard lock(guard);
    idle.push_back(std::move(x));
  }

  std::mutex guard;
  std::vector<std::unique_ptr<worker>> idle;
};

void bpe_tokenizer::worker::merge_all(const std::vector<bpe_merge>& merges,
                                      const ranks& merge_ranks) {
  const auto later = std::greater<>();
  found.clear();
  for (std::uint32_t at = 0; at < pieces.size(); ++at)
    propose(at, merge_ranks);
  std::make_heap(found.begin(), found.end(), later);
  while (!found.empty()) {
    // All of one rank before anything that they make possible, which may rank lower in a merges.txt
    // that no training made: GPT-2 does the same.
    const auto rank = found.front().rank;
    batch.clear();
    while (!found.empty() && found.front().rank == rank) {
      batch.push_back(found.front().at);
      std::pop_heap(found.begin(), found.end(), later);
      found.pop_back();
    }
    for (const auto at : batch) {
      if (!applies(merges[rank], at))
        continue;
      apply(merges[rank], at);
      for (const auto changed : {pieces[at].previous, at}) {
        const auto before = found.size();
        propose(changed, merge_ranks);
        if (found.size() > before)
          std::push_heap(found.begin(), found.end(), later);
      }
    }
  }
}

bpe_tokenizer::bpe_tokenizer(bpe_vocabulary vocabulary)
    : vocabulary_(std::move(vocabulary)),
      ranks_(std::make_unique<ranks>(vocabulary_.merges)),
      workers_(std::make_unique<worker_pool>()) {
  digester all;
  all.add(fmt::format("{} {} tokens, {} merges, end {}\n",
                      type_name,
                      vocabulary_.tokens.size(),
                      vocabulary_.merges.size(),
                      vocabulary_.end_of_document));
  for (const auto& token : vocabulary_.tokens) {
    all.add(fmt::format("{} {}\n", token.size(), token));
    bytes_.push_back(to_bytes(token).value_or(token));
  }
  for (const auto& merge : vocabulary_.merges)
    all.add(fmt::format("{} {}\n", merge.left, merge.right));
  fingerprint_ = all.result();
}

bpe_tokenizer::~bpe_tokenizer() = default;

std::int32_t bpe_tokenizer::vocabulary_size() const {
  return static_cast<std::int32_t>(vocabulary_.tokens.size());
}

void bpe_tokenizer::append(std::string_view text,
                           std::vector<std::int32_t>& ids,
                           special_tokens specials) const {
  constexpr std::string_view end_text = end_of_document_text;
  auto by = workers_->take();
  if (specials == special_tokens::recognised)
    for (auto at = text.find(end_text); at != text.npos; at = text.find(end_text)) {
      append_words(text.substr(0, at), ids, *by);
      ids.push_back(end_of_document());
      text.remove_prefix(at + end_text.size());
    }
  append_words(text, ids, *by);
  workers_->give_back(std::move(by));
}

void bpe_tokenizer::append_words(std::string_view text,
                                 std::vector<std::int32_t>& ids,
                                 worker& by) const {
  word_cursor words(cut_, text);
  for (auto word = words.next(); !word.empty(); word = words.next()) {
    if (word.size() > worker::longest_cached) {
      append_word(word, ids, by);
      continue;
    }
    auto& known = by.known[hash64(word) % worker::cached_words];
    if (known.word != word) {
      known.word.clear();  // should the next line throw, an empty slot equals no word
      known.ids.clear();
      append_word(word, known.ids, by);
      known.word = word;
    }
    ids.insert(ids.end(), known.ids.begin(), known.ids.end());
  }
}

void bpe_tokenizer::append_word(std::string_view word,
                                std::vector<std::int32_t>& ids,
                                worker& by) const {
  if (word.size() >= worker::none)
    throw input_error(
        "cannot encode a word of {} bytes without a cut: cut the document into smaller ones",
        word.size());
  const auto size = static_cast<std::uint32_t>(word.size());
  by.pieces.resize(size);
  for (std::uint32_t at = 0; at < size; ++at)
    by.pieces[at] = {vocabulary_.byte_ids[static_cast<std::uint8_t>(word[at])],
                     at == 0 ? worker::none : at - 1,
                     at + 1 == size ? worker::none : at + 1};
  by.merge_all(vocabulary_.merges, *ranks_);
  for (std::uint32_t at = 0; at != worker::none; at = by.pieces[at].next)
    ids.push_back(by.pieces[at].id);
}

std::string bpe_tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const auto id : ids) {
    if (id < 0 || id >= vocabulary_size())
      throw input_error(
          "cannot decode id {}: the vocabulary ends at {}", id, vocabulary_size() - 1);
    text += bytes_[static_cast<std::size_t>(id)];
  }
  return text;
}

void bpe_tokenizer::save(const std::filesystem::path& folder) const {
  save_bpe_vocabulary(vocabulary_, folder);
}

}  // namespace troupe::runtime
