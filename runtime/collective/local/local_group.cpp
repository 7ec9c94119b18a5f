#include "runtime/collective/local/local_group.hpp"

#include "runtime/collective/call.hpp"
#include "runtime/collective/offsets.hpp"
#include "runtime/collective/ordered_sum.hpp"
#include "runtime/core/error.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace troupe::runtime {
namespace {

/// Where the slice of rank r begins: whole cache lines, so that no two ranks write one.
std::int64_t slice_begin(std::int64_t n, int r, int size) {
  const auto each = (n / size + 15) / 16 * 16;
  return r == size ? n : std::min(n, each * r);
}

void move(stream& on, void* to, const void* from, std::int64_t bytes) {
  if (to != from && bytes > 0)
    on.copy(to, from, std::size_t(bytes));
}

}  // namespace

local_group::local_group(axis along, int size, cancel_token generation)
    : along_(along), size_(size), token_(std::move(generation)), offers_(std::size_t(size)) {
  for (auto& points : points_)
    points.resize(std::size_t(size));
  queues_.resize(std::size_t(size));
  waker_ = token_.on_cancel([this] {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  });
}

void local_group::meet(int rank, stream* on) {
  auto point = on == nullptr ? nullptr : on->mark();
  std::unique_lock lock(mutex_);
  if (token_.is_cancelled())
    leave(lock);
  const auto round = round_;
  auto& points = points_[round % 2];
  points[std::size_t(rank)] = std::move(point);
  if (on != nullptr)
    queues_[std::size_t(rank)] = on->queue();
  if (++arrived_ == size_) {
    check_offers();
    arrived_ = 0;
    ++round_;
    changed_.notify_all();
  } else {
    changed_.wait(lock, [&] { return round_ != round || token_.is_cancelled(); });
    if (round_ == round)
      leave(lock);
  }
  if (!broken_.empty())
    throw broken_promise(broken_);
  lock.unlock();
  for (int r = 0; on != nullptr && r < size_; ++r)
    if (r != rank)
      on->wait_for(points[std::size_t(r)]);
}

void local_group::check_offers() {
  const auto call_of = [](const offer& x) {
    return collective_call{x.what, x.elements, x.detail, x.parts.size(), x.ends, x.cuts_are_own};
  };
  for (std::size_t r = 1; r < offers_.size(); ++r)
    if (auto wrong = disagreement(along_, 0, call_of(offers_.front()), int(r), call_of(offers_[r]));
        !wrong.empty())
      broken_ = std::move(wrong);
}

void local_group::leave(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [&] { return readers_ == 0; });
  const auto queues = queues_;
  lock.unlock();
  for (const auto& queue : queues)  // what readers have enqueued reads later
    try {
      if (queue != nullptr)
        queue->mark()->wait();
    } catch (const device_failure&) {
      // Nothing runs on a failed device any more.
    }
  throw cancelled();
}

local_group::reading::reading(local_group& of) : of_(of) {
  std::unique_lock lock(of_.mutex_);
  if (of_.token_.is_cancelled())  // somebody may have left already
    of_.leave(lock);
  ++of_.readers_;
}

local_group::reading::~reading() {
  const std::lock_guard lock(of_.mutex_);
  if (--of_.readers_ == 0 && of_.token_.is_cancelled())
    of_.changed_.notify_all();
}

void local_communicator::meet(stream& on, offer mine) {
  group_->offers_[std::size_t(rank_)] = std::move(mine);
  group_->meet(rank_, &on);
}

void local_communicator::barrier() {
  group_->offers_[std::size_t(rank_)] = {.what = "barrier"};
  group_->meet(rank_, nullptr);
}

void local_communicator::sum(
    stream& on, dtype type, void* to, std::int64_t begin, std::int64_t end) {
  if (end <= begin)
    return;
  const auto element = std::int64_t(size_of(type));
  std::vector<const void*> sources;
  for (const auto& of_rank : group_->offers_)
    for (const auto* part : of_rank.parts)
      sources.push_back(at(part, begin * element));
  const local_group::reading everybody(*group_);
  ordered_sum(on, type, to, sources, end - begin);
}

// Each rank sums one slice over everybody's arrays, in its own place; then everybody fetches the
// other slices. Where `to` is a part, its slice is read by its rank alone until the second meeting.
void local_communicator::all_reduce_sum(
    stream& on, dtype type, std::span<const void* const> parts, void* to, std::int64_t n) {
  const auto element = std::int64_t(size_of(type));
  meet(on,
       {.what = "all_reduce_sum",
        .elements = n,
        .detail = int(type),
        .parts = {parts.begin(), parts.end()},
        .to = to});
  const auto begin = slice_begin(n, rank_, size());
  sum(on, type, at(to, begin * element), begin, slice_begin(n, rank_ + 1, size()));
  group_->meet(rank_, &on);
  {
    const local_group::reading everybody(*group_);
    for (int r = 0; r < size(); ++r) {
      const auto from = slice_begin(n, r, size()) * element;
      const auto end = slice_begin(n, r + 1, size()) * element;
      const auto* const theirs = group_->offers_[std::size_t(r)].to;
      move(on, at(to, from), at(theirs, from), end - from);
    }
  }
  group_->meet(rank_, &on);
}

void local_communicator::reduce_scatter_sum(
    stream& on, dtype type, std::span<const void* const> parts, void* to, offsets ends) {
  meet(on,
       {.what = "reduce_scatter_sum",
        .elements = ends.back(),
        .detail = int(type),
        .parts = {parts.begin(), parts.end()},
        .ends = ends});
  sum(on, type, to, begin_of(ends, rank_), ends[std::size_t(rank_)]);
  group_->meet(rank_, &on);
}

void local_communicator::all_gather(stream& on, const void* mine, void* to, offsets ends) {
  meet(on, {.what = "all_gather", .elements = ends.back(), .parts = {mine}, .ends = ends});
  {
    const local_group::reading everybody(*group_);
    for (int r = 0; r < size(); ++r) {
      const auto begin = begin_of(ends, r);
      move(on,
           at(to, begin),
           group_->offers_[std::size_t(r)].parts[0],
           ends[std::size_t(r)] - begin);
    }
  }
  group_->meet(rank_, &on);
}

void local_communicator::all_to_all(
    stream& on, const void* from, offsets from_ends, void* to, offsets to_ends) {
  meet(on, {.what = "all_to_all", .parts = {from}, .ends = from_ends, .cuts_are_own = true});
  {
    const local_group::reading everybody(*group_);
    for (int r = 0; r < size(); ++r) {
      const auto& theirs = group_->offers_[std::size_t(r)];
      const auto begin = begin_of(theirs.ends, rank_), here = begin_of(to_ends, r);
      const auto bytes = theirs.ends[std::size_t(rank_)] - begin;
      ensure(bytes == to_ends[std::size_t(r)] - here,
             "COLLECTIVE-4: what one rank sends is as much as the other expects");
      move(on, at(to, here), at(theirs.parts[0], begin), bytes);
    }
  }
  group_->meet(rank_, &on);
}

void local_communicator::broadcast(stream& on, void* data, std::int64_t bytes, int root) {
  meet(on, {.what = "broadcast", .elements = bytes, .detail = root, .parts = {data}});
  if (rank_ != root) {
    const local_group::reading everybody(*group_);
    move(on, data, group_->offers_[std::size_t(root)].parts[0], bytes);
  }
  group_->meet(rank_, &on);
}

std::shared_ptr<communicator> alone(axis along) {
  return std::make_shared<local_communicator>(
      std::make_shared<local_group>(along, 1, cancel_token()), 0);
}

}  // namespace troupe::runtime
