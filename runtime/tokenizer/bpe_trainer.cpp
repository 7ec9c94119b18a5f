#include "runtime/tokenizer/bpe_trainer.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/tokenizer/byte_alphabet.hpp"

#include <algorithm>
#include <limits>
#include <queue>

namespace troupe::runtime {
namespace {

constexpr std::size_t bytes_per_word = 16;

using pair_key = std::uint64_t;  ///< left id << 32 | right id, as in BPE-ORDER

/// All distinct words as linked lists of tokens, and the count and positions of each pair of
/// neighbours. A merge visits only the positions of its pair.
class word_store {
 public:
  using position = std::uint32_t;
  static constexpr position none = std::numeric_limits<position>::max();

  void add(std::string_view word, std::uint64_t count, const std::array<std::int32_t, 256>& ids) {
    if (word.size() >= none - nodes_.size())
      throw input_error(
          "cannot train on more than {} bytes of distinct words: train on fewer documents", none);
    const auto first = static_cast<position>(nodes_.size());
    for (const char byte : word) {
      const auto at = static_cast<position>(nodes_.size());
      nodes_.push_back({ids[static_cast<std::uint8_t>(byte)],
                        static_cast<std::uint32_t>(counts_.size()),
                        at == first ? none : at - 1,
                        at + 1 == first + word.size() ? none : at + 1});
    }
    counts_.push_back(count);
    for (auto at = first; nodes_[at].next != none; ++at)
      note(at);
    changed_.clear();
  }

  std::uint64_t count(pair_key key) const {
    const auto found = pairs_.find(key);
    return found == pairs_.end() ? 0 : found->second.count;
  }

  template <class Function>
  void for_each_pair(Function f) const {
    for (const auto& [key, about] : pairs_)
      f(key, about.count);
  }

  /// Replaces the pair everywhere, from left to right within a word. Returns the pairs that became
  /// more frequent, without duplicates.
  const std::vector<pair_key>& merge(const bpe_merge& pair);

 private:
  struct node {
    std::int32_t id;  ///< -1: merged into the previous node
    std::uint32_t word;
    position previous;
    position next;
  };
  struct occurrences {
    std::uint64_t count = 0;
    std::vector<position> at;  ///< positions of the left token; may be stale
  };

  pair_key key_at(position at) const {
    const auto& left = nodes_[at];
    return pair_key(std::uint32_t(left.id)) << 32 | std::uint32_t(nodes_[left.next].id);
  }

  void note(position at) {
    const auto key = key_at(at);
    auto& about = pairs_[key];
    about.count += counts_[nodes_[at].word];
    about.at.push_back(at);
    changed_.push_back(key);
  }

  void forget(position at) { pairs_[key_at(at)].count -= counts_[nodes_[at].word]; }

  std::vector<node> nodes_;
  std::vector<std::uint64_t> counts_;  ///< by word
  std::unordered_map<pair_key, occurrences> pairs_;
  std::vector<pair_key> changed_;
};

const std::vector<pair_key>& word_store::merge(const bpe_merge& pair) {
  const auto key = pair_key(std::uint32_t(pair.left)) << 32 | std::uint32_t(pair.right);
  auto places_of_pair = std::move(pairs_[key].at);
  pairs_[key].at.clear();
  std::sort(places_of_pair.begin(), places_of_pair.end());
  changed_.clear();
  for (const auto at : places_of_pair) {
    auto& left = nodes_[at];
    if (left.id != pair.left || left.next == none || nodes_[left.next].id != pair.right)
      continue;
    const auto before = left.previous;
    const auto after = nodes_[left.next].next;
    forget(at);
    if (before != none)
      forget(before);
    if (after != none)
      forget(left.next);
    nodes_[left.next].id = -1;
    left.id = pair.result;
    left.next = after;
    if (before != none)
      note(before);
    if (after != none) {
      nodes_[after].previous = at;
      note(at);
    }
  }
  std::sort(changed_.begin(), changed_.end());
  changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
  return changed_;
}

struct candidate {
  std::uint64_t count;
  pair_key pair;

  friend bool operator<(const candidate& a, const candidate& b) {  // BPE-ORDER
    return a.count != b.count ? a.count < b.count : a.pair > b.pair;
  }
};

/// Priority queue of pairs. Counts are checked on removal, because merges change them.
class pair_queue {
 public:
  pair_queue(const word_store& words, std::uint64_t minimum_count)
      : words_(words), minimum_count_(std::max<std::uint64_t>(minimum_count, 1)) {
    words.for_each_pair([&](pair_key pair, std::uint64_t) { put(pair); });
  }

  void put(pair_key pair) {
    if (const auto count = words_.count(pair); count >= minimum_count_)
      queue_.push({count, pair});
  }

  /// Takes the next pair by BPE-ORDER. Returns false if no pair reaches the minimum count.
  bool take(pair_key& pair) {
    while (!queue_.empty()) {
      const auto best = queue_.top();
      queue_.pop();
      pair = best.pair;
      if (words_.count(best.pair) == best.count)
        return true;
      put(best.pair);
    }
    return false;
  }

 private:
  const word_store& words_;
  std::uint64_t minimum_count_;
  std::priority_queue<candidate> queue_;
};

}  // namespace

std::size_t bpe_trainer::word_hash::operator()(std::string_view word) const {
  return static_cast<std::size_t>(hash64(word));
}

bpe_trainer::bpe_trainer(std::size_t maximum_words) : maximum_words_(maximum_words) {
  if (maximum_words == 0)
    throw input_error("cannot train a tokenizer with room for 0 distinct words: allow 1 or more");
}

void bpe_trainer::add(std::string_view document) {
  word_cursor words(cut_, document);
  for (auto word = words.next(); !word.empty(); word = words.next()) {
    const auto known = counts_.find(word);
    if (known != counts_.end()) {
      ++known->second;
      continue;
    }
    counts_.emplace(word, 1);
    bytes_ += word.size();
    if (counts_.size() > maximum_words_ || bytes_ / bytes_per_word > maximum_words_)
      drop_rare();
  }
}

void bpe_trainer::drop_rare() {
  const auto half_words = maximum_words_ / 2;
  const auto half_bytes = half_words * bytes_per_word;
  for (std::uint64_t rare = 1; counts_.size() > half_words || bytes_ > half_bytes; ++rare)
    std::erase_if(counts_, [&](const auto& word) {
      if (word.second > rare)
        return false;
      bytes_ -= word.first.size();
      return true;
    });
}

bpe_vocabulary bpe_trainer::train(const bpe_training& settings) const {
  if (settings.vocabulary_size < 257)
    throw input_error(
        "cannot train a tokenizer of {} tokens: 256 bytes and {} alone are 257; ask for more",
        settings.vocabulary_size,
        end_of_document_text);
  bpe_vocabulary made;
  for (const auto byte : bytes_by_character()) {
    made.byte_ids[byte] = static_cast<std::int32_t>(made.tokens.size());
    made.tokens.emplace_back(character_of(byte));
  }
  word_store words;
  for (const auto& [word, count] : counts_)
    words.add(word, count, made.byte_ids);
  pair_queue queue(words, settings.minimum_count);
  const auto before_the_end = static_cast<std::size_t>(settings.vocabulary_size) - 1;
  for (pair_key pair = 0; made.tokens.size() < before_the_end && queue.take(pair);) {
    bpe_merge merge{std::int32_t(pair >> 32), std::int32_t(pair & 0xFFFFFFFF), 0};
    merge.result = static_cast<std::int32_t>(made.tokens.size());
    made.tokens.push_back(made.tokens[std::size_t(merge.left)]
                          + made.tokens[std::size_t(merge.right)]);
    made.merges.push_back(merge);
    for (const auto changed : words.merge(merge))
      queue.put(changed);
    if (settings.progress)
      settings.progress(made.tokens.size() + 1, std::uint64_t(settings.vocabulary_size));
  }
  made.end_of_document = static_cast<std::int32_t>(made.tokens.size());
  made.tokens.emplace_back(end_of_document_text);
  return made;
}

}  // namespace troupe::runtime
