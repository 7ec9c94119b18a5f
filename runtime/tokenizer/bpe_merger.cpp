#include "runtime/tokenizer/bpe_merger.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"

#include <algorithm>
#include <bit>
#include <functional>

namespace troupe::runtime {

std::unique_ptr<bpe_worker> bpe_worker_pool::take() {
  {
    const std::lock_guard lock(guard_);
    if (!idle_.empty()) {
      auto taken = std::move(idle_.back());
      idle_.pop_back();
      return taken;
    }
  }
  return std::make_unique<bpe_worker>();
}

void bpe_worker_pool::give_back(std::unique_ptr<bpe_worker> x) {
  const std::lock_guard lock(guard_);
  idle_.push_back(std::move(x));
}

/// Pair of tokens to rank of its merge: open addressing, at most half full, because this lookup is
/// where encoding spends its time.
struct bpe_merger::ranks {
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

bpe_merger::bpe_merger(std::vector<bpe_merge> merges,
                       const std::array<std::int32_t, 256>& byte_ids,
                       merge_order order)
    : merges_(std::move(merges)),
      byte_ids_(byte_ids),
      order_(order),
      ranks_(std::make_unique<ranks>(merges_)) {}

bpe_merger::~bpe_merger() = default;

void bpe_merger::propose(std::uint32_t at, bpe_worker& by) const {
  if (at == bpe_worker::none || by.pieces[at].next == bpe_worker::none)
    return;
  const auto rank = ranks_->of(by.pieces[at].id, by.pieces[by.pieces[at].next].id);
  if (rank != ranks::none)
    by.found.push_back({rank, at});
}

void bpe_merger::apply(std::uint32_t rank, std::uint32_t at, bpe_worker& by) const {
  const auto& merge = merges_[rank];
  auto& left = by.pieces[at];
  if (left.id != merge.left || left.next == bpe_worker::none
      || by.pieces[left.next].id != merge.right)
    return;
  auto& right = by.pieces[left.next];
  left.id = merge.result;
  left.next = right.next;
  right.id = -1;
  if (left.next != bpe_worker::none)
    by.pieces[left.next].previous = at;
  for (const auto changed : {left.previous, at}) {
    const auto before = by.found.size();
    propose(changed, by);
    if (by.found.size() > before)
      std::push_heap(by.found.begin(), by.found.end(), std::greater<>());
  }
}

void bpe_merger::merge_all(bpe_worker& by) const {
  const auto take = [&by] {
    std::pop_heap(by.found.begin(), by.found.end(), std::greater<>());
    const auto taken = by.found.back();
    by.found.pop_back();
    return taken;
  };
  by.found.clear();
  for (std::uint32_t at = 0; at < by.pieces.size(); ++at)
    propose(at, by);
  std::make_heap(by.found.begin(), by.found.end(), std::greater<>());
  while (!by.found.empty()) {
    const auto rank = by.found.front().rank;
    by.batch.assign(1, take().at);
    while (order_ == merge_order::rank_by_rank && !by.found.empty()
           && by.found.front().rank == rank)
      by.batch.push_back(take().at);
    for (const auto at : by.batch)
      apply(rank, at, by);
  }
}

void bpe_merger::append(std::string_view word,
                        std::vector<std::int32_t>& ids,
                        bpe_worker& by) const {
  if (word.size() > bpe_worker::longest_cached)
    return append_new(word, ids, by);
  auto& known = by.known[hash64(word) % bpe_worker::cached_words];
  if (known.word != word) {
    known.word.clear();  // should the next line throw, an empty slot equals no word
    known.ids.clear();
    append_new(word, known.ids, by);
    known.word = word;
  }
  ids.insert(ids.end(), known.ids.begin(), known.ids.end());
}

void bpe_merger::append_new(std::string_view word,
                            std::vector<std::int32_t>& ids,
                            bpe_worker& by) const {
  if (word.size() >= bpe_worker::none)
    throw input_error(
        "cannot encode a word of {} bytes without a cut: cut the document into smaller ones",
        word.size());
  const auto size = static_cast<std::uint32_t>(word.size());
  by.pieces.resize(size);
  for (std::uint32_t at = 0; at < size; ++at)
    by.pieces[at] = {byte_ids_[static_cast<std::uint8_t>(word[at])],
                     at == 0 ? bpe_worker::none : at - 1,
                     at + 1 == size ? bpe_worker::none : at + 1};
  merge_all(by);
  for (std::uint32_t at = 0; at != bpe_worker::none; at = by.pieces[at].next)
    ids.push_back(by.pieces[at].id);
}

}  // namespace troupe::runtime
