#include "runtime/tokenizer/bpe_merger.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <bit>
#include <functional>

namespace troupe::runtime {

void bpe_worker::add(std::int32_t id) {
  if (pieces.size() >= none)
    throw input_error(
        "cannot encode a word of 4 GiB or more: split the document into smaller ones");
  const auto at = std::uint32_t(pieces.size());
  if (at > 0)
    pieces.back().next = at;
  pieces.push_back({id, at == 0 ? none : at - 1, none});
}

/// Maps a pair of tokens to the rank of its merge. Uses open addressing and is at most half full,
/// because encoding spends most of its time in this lookup.
struct bpe_merger::ranks {
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  ranks(const std::vector<bpe_merge>& merges, bool by_result)
      : slots(std::bit_ceil(2 * merges.size() + 2)), shift(64 - std::countr_zero(slots.size())) {
    std::uint32_t rank = 0;
    for (std::size_t i = 0; i < merges.size(); ++i) {
      auto& empty = slots[find(merges[i].left, merges[i].right)];
      ensure(empty.rank == none, "BPE-1: no pair of bpe_vocabulary::merges occurs twice");
      if (!by_result || i == 0 || merges[i].result != merges[i - 1].result)
        rank = std::uint32_t(i);
      empty = {merges[i].left, merges[i].right, rank};
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

bpe_merger::bpe_merger(std::vector<bpe_merge> merges, merge_order order)
    : merges_(std::move(merges)),
      order_(order),
      ranks_(std::make_unique<ranks>(merges_, order == merge_order::by_result)) {}

bpe_merger::~bpe_merger() = default;

void bpe_merger::propose(std::uint32_t at, bpe_worker& by) const {
  if (at == bpe_worker::none || by.pieces[at].next == bpe_worker::none)
    return;
  const auto rank = ranks_->of(by.pieces[at].id, by.pieces[by.pieces[at].next].id);
  if (rank != ranks::none)
    by.found.push_back({rank, at});
}

/// True if the pair at `left` still has this rank: an earlier merge may have changed it.
bool bpe_merger::stands(std::uint32_t rank,
                        const bpe_worker::piece& left,
                        const bpe_worker& by) const {
  if (left.id < 0 || left.next == bpe_worker::none)
    return false;
  const auto right = by.pieces[left.next].id;
  return order_ == merge_order::by_result
             ? ranks_->of(left.id, right) == rank
             : left.id == merges_[rank].left && right == merges_[rank].right;
}

void bpe_merger::apply(std::uint32_t rank, std::uint32_t at, bpe_worker& by) const {
  const auto& merge = merges_[rank];
  auto& left = by.pieces[at];
  if (!stands(rank, left, by))
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

void bpe_merger::append(std::vector<std::int32_t>& ids, bpe_worker& by) const {
  if (by.pieces.empty())
    return;
  merge_all(by);
  for (std::uint32_t at = 0; at != bpe_worker::none; at = by.pieces[at].next)
    ids.push_back(by.pieces[at].id);
}

byte_bpe::byte_bpe(std::vector<bpe_merge> merges,
                   const std::array<std::int32_t, 256>& byte_ids,
                   merge_order order,
                   std::unordered_map<std::string, std::int32_t> whole)
    : merger_(std::move(merges), order), byte_ids_(byte_ids), whole_(std::move(whole)) {}

std::unique_ptr<subword_worker> byte_bpe::make_worker() const {
  return std::make_unique<bpe_worker>();
}

void byte_bpe::append(std::string_view word,
                      std::vector<std::int32_t>& ids,
                      subword_worker& by) const {
  by.known.append(word, ids, [&](std::vector<std::int32_t>& to) {
    append_new(word, to, static_cast<bpe_worker&>(by));
  });
}

void byte_bpe::append_new(std::string_view word,
                          std::vector<std::int32_t>& ids,
                          bpe_worker& by) const {
  if (!whole_.empty())
    if (const auto found = whole_.find(std::string(word)); found != whole_.end())
      return ids.push_back(found->second);
  by.begin();
  by.pieces.reserve(word.size());
  for (const char byte : word)
    by.add(byte_ids_[static_cast<std::uint8_t>(byte)]);
  merger_.append(ids, by);
}

}  // namespace troupe::runtime
