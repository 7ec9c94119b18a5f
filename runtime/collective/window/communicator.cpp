#include "runtime/collective/window/communicator.hpp"

#include "runtime/collective/offsets.hpp"
#include "runtime/core/error.hpp"

#include <algorithm>

namespace troupe::runtime {

window_communicator::window_communicator(std::shared_ptr<window_group> group,
                                         int rank,
                                         const cancel_token& until)
    : group_(std::move(group)), rank_(rank), offers_(std::size_t(group_->size())) {
  group_->join(rank, until);
}

window_communicator::~window_communicator() {
  group_->part(rank_);
}

template <class Work>
void window_communicator::carry_out(const collective_call& call, Work&& work) {
  if (failure_ != nullptr)
    std::rethrow_exception(failure_);
  try {
    group_->begin(rank_, call);
    work();
  } catch (...) {
    failure_ = std::current_exception();
    group_->leave(rank_);
    throw;
  }
}

// All ranks compare the same offers, so all agree or all throw the same error.
void window_communicator::meet(const collective_call& call, std::vector<window_array> arrays) {
  for (auto& array : arrays)
    array = group_->placed(array);
  const auto mine = offer_of(call, std::move(arrays));
  if (const auto words = words_of(mine).size(); words > most_words_of_offer)
    throw input_error(
        "{} along {} by {} ranks with {} arrays each needs {} words to describe, but at most {} "
        "are possible between processes; pass fewer arrays at once",
        call.what,
        short_name(along()),
        size(),
        mine.arrays.size(),
        words,
        most_words_of_offer);
  group_->meet(rank_, mine);
  round_ = group_->rounds(rank_);
  for (int r = 0; r < size(); ++r)
    offers_[std::size_t(r)] = group_->offer(rank_, r);
  std::string broken;
  for (int r = 1; r < size(); ++r)
    if (auto wrong = disagreement(along(), 0, offers_[0].call(), r, offers_[std::size_t(r)].call());
        !wrong.empty())
      broken = std::move(wrong);
  if (!broken.empty())
    throw broken_promise(broken);
}

void window_communicator::barrier() {
  carry_out(collective_call::barrier(), [&] { meet(collective_call::barrier(), {}); });
}

// Each rank sums one slice, then copies the other slices, like in local_group. If `to` is a part,
// only its own rank reads its slice until the second meeting.
void window_communicator::all_reduce_sum(
    stream& stream, dtype type, std::span<const void* const> parts, void* to, std::int64_t n) {
  const auto call = collective_call::all_reduce_sum(type, parts.size(), n);
  carry_out(call, [&] {
    stream.require_host("a sum between processes");
    const auto element = std::int64_t(size_of(type));
    std::vector<window_array> arrays;
    for (const auto* part : parts)
      arrays.push_back({part, n * element});
    arrays.push_back({to, n * element});
    meet(call, std::move(arrays));
    const auto ends = slices(n, size());
    const auto begin = begin_of(ends, rank_);
    sum(stream, type, at(to, begin * element), begin, ends[std::size_t(rank_)]);
    meet();
    std::vector<move> moves;
    for (int i = 1; i < size(); ++i) {
      const int r = (rank_ + i) % size();
      const auto from = begin_of(ends, r) * element;
      moves.push_back({r, parts.size(), from, at(to, from), size_of_cut(ends, r) * element});
    }
    fetch(stream, moves);
    meet();
  });
}

void window_communicator::reduce_scatter_sum(
    stream& stream, dtype type, std::span<const void* const> parts, void* to, offsets ends) {
  const auto call = collective_call::reduce_scatter_sum(type, parts.size(), ends);
  carry_out(call, [&] {
    stream.require_host("a sum between processes");
    std::vector<window_array> arrays;
    for (const auto* part : parts)
      arrays.push_back({part, ends.back() * std::int64_t(size_of(type))});
    meet(call, std::move(arrays));
    sum(stream, type, to, begin_of(ends, rank_), ends[std::size_t(rank_)]);
    meet();
  });
}

void window_communicator::all_gather(stream& stream, const void* mine, void* to, offsets ends) {
  const auto call = collective_call::all_gather(ends);
  carry_out(call, [&] {
    stream.require_host("an all-gather between processes");
    meet(call, {{mine, size_of_cut(ends, rank_)}});
    std::vector<move> moves;
    for (int i = 0; i < size(); ++i) {
      const int r = (rank_ + i) % size();
      moves.push_back({r, 0, 0, at(to, begin_of(ends, r)), size_of_cut(ends, r)});
    }
    fetch(stream, moves);
    meet();
  });
}

void window_communicator::all_to_all(
    stream& stream, const void* from, offsets from_ends, void* to, offsets to_ends) {
  const auto call = collective_call::all_to_all(from_ends);
  carry_out(call, [&] {
    stream.require_host("an exchange between processes");
    meet(call, {{from, from_ends.back()}});
    std::vector<move> moves;
    for (int i = 0; i < size(); ++i) {
      const int r = (rank_ + i) % size();
      const auto& theirs = offers_[std::size_t(r)];
      const auto bytes = size_of_cut(theirs.ends, rank_);
      ensure(bytes == size_of_cut(to_ends, r),
             "COLLECTIVE-4: a rank sends as much as the other expects");
      moves.push_back({r, 0, begin_of(theirs.ends, rank_), at(to, begin_of(to_ends, r)), bytes});
    }
    fetch(stream, moves);
    meet();
  });
}

void window_communicator::broadcast(stream& stream, void* data, std::int64_t bytes, int root) {
  const auto call = collective_call::broadcast(bytes, root);
  carry_out(call, [&] {
    stream.require_host("a broadcast between processes");
    meet(call, {{data, bytes}});
    if (rank_ != root)
      fetch(stream, {{root, 0, 0, data, bytes}});
    meet();
  });
}

}  // namespace troupe::runtime
