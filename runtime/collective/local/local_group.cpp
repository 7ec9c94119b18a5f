#include "runtime/collective/local/local_group.hpp"

#include "runtime/collective/offsets.hpp"
#include "runtime/collective/ordered_sum.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/lane_clock.hpp"

#include <cstddef>
#include <fmt/format.h>
#include <utility>

namespace troupe::runtime {
local_group::local_group(axis_set along, int size, cancel_token generation)
    : along_(along),
      size_(size),
      tokens_(std::size_t(size), generation),
      name_(fmt::format("the {} group", short_name(along))),
      here_(std::size_t(size), 0),
      offers_(std::size_t(size)),
      waited_ns_(std::size_t(size)) {
  for (auto& points : points_)
    points.resize(std::size_t(size));
  queues_.resize(std::size_t(size));
  for (int r = 0; r < size; ++r)
    members_.push_back(fmt::format("rank {} of {}", r, name_));
  wakers_.push_back(waker(generation));
}

std::shared_ptr<void> local_group::waker(const cancel_token& of) {
  return of.on_cancel([this] {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  });
}

void local_group::release_by(int rank, const cancel_token& own) {
  auto wakes = waker(own);  // takes the lock
  const std::lock_guard lock(mutex_);
  tokens_.at(std::size_t(rank)) = own;
  wakers_.push_back(std::move(wakes));
}

void local_group::introduce(const std::string& group, int rank, std::string who) {
  const std::lock_guard lock(mutex_);
  name_ = group;
  members_.at(std::size_t(rank)) = std::move(who);
}

wait_reason local_group::meeting(int rank) const {
  return {wait_reason::party::group,
          offers_[std::size_t(rank)].call.what,
          std::uint64_t(rank),
          weak_from_this().lock()};
}

wait_report local_group::missing(std::uint64_t rank) const {
  const std::lock_guard lock(mutex_);
  wait_report out;
  if (rank >= here_.size() || !here_[rank])
    return out;
  out.what = fmt::format("{} in '{}'", offers_[rank].call.what, name_);
  for (std::size_t r = 0; r < here_.size(); ++r)
    if (!here_[r])
      out.whom.push_back(members_[r]);
  return out;
}

void local_group::meet(int rank, stream* stream) {
  auto point = stream == nullptr ? nullptr : stream->mark();
  std::unique_lock lock(mutex_);
  if (left_)  // a rank that has left never arrives: wait for this rank's release
    changed_.wait(lock, [&] { return is_released(rank); });
  if (is_released(rank))
    leave(lock);
  const auto round = round_;
  auto& points = points_[round % 2];
  points[std::size_t(rank)] = std::move(point);
  if (stream != nullptr)
    queues_[std::size_t(rank)] = stream->queue();
  here_[std::size_t(rank)] = 1;
  if (++arrived_ == size_) {
    check_offers();
    arrived_ = 0;
    here_.assign(here_.size(), 0);
    ++round_;
    changed_.notify_all();
  } else {
    const lane_timer timed(waited_ns_[std::size_t(rank)]);
    changed_.wait(
        lock, [&] { return round_ != round || is_released(rank); }, meeting(rank));
    if (round_ == round)
      leave(lock);
  }
  if (!broken_.empty())
    throw broken_promise(broken_);
  lock.unlock();
  for (int r = 0; stream != nullptr && r < size_; ++r)
    if (r != rank)
      stream->wait_for(points[std::size_t(r)]);
}

void local_group::check_offers() {
  for (std::size_t r = 1; r < offers_.size(); ++r)
    if (auto wrong = disagreement(along_, 0, offers_.front().call, int(r), offers_[r].call);
        !wrong.empty())
      broken_ = std::move(wrong);
}

void local_group::leave(std::unique_lock<std::mutex>& lock) {
  left_ = true;
  changed_.wait(lock, [&] { return readers_ == 0; });
  const auto queues = queues_;
  lock.unlock();
  for (const auto& queue : queues)  // queued work of readers may still read the arrays
    try {
      if (queue != nullptr)
        queue->mark()->wait();
    } catch (const device_failure&) {
      // A failed device runs nothing anymore.
    }
  throw cancelled();
}

local_group::reading::reading(local_group& of, int rank) : of_(of) {
  std::unique_lock lock(of_.mutex_);
  // With a common token another rank may have left already; with separate tokens this rank's token
  // is set later.
  of_.changed_.wait(lock, [&] { return !of_.left_ || of_.is_released(rank); });
  if (of_.is_released(rank))
    of_.leave(lock);
  ++of_.readers_;
}

local_group::reading::~reading() {
  const std::lock_guard lock(of_.mutex_);
  if (--of_.readers_ == 0 && of_.left_)
    of_.changed_.notify_all();
}

void local_communicator::meet(stream& stream, offer mine) {
  group_->offers_[std::size_t(rank_)] = std::move(mine);
  group_->meet(rank_, &stream);
}

void local_communicator::barrier() {
  group_->offers_[std::size_t(rank_)] = {.call = collective_call::barrier()};
  group_->meet(rank_, nullptr);
}

void local_communicator::sum(
    stream& stream, dtype type, void* to, std::int64_t begin, std::int64_t end) {
  if (end <= begin)
    return;
  const auto element = std::int64_t(size_of(type));
  std::vector<const void*> sources;
  for (const auto& of_rank : group_->offers_)
    for (const auto* part : of_rank.parts)
      sources.push_back(at(part, begin * element));
  const local_group::reading everybody(*group_, rank_);
  ordered_sum(stream, type, to, sources, end - begin);
}

// Each rank sums one slice of all arrays in place, then copies the other slices. If `to` is a part,
// only its own rank reads its slice until the second meeting.
void local_communicator::all_reduce_sum(
    stream& stream, dtype type, std::span<const void* const> parts, void* to, std::int64_t n) {
  const auto element = std::int64_t(size_of(type));
  meet(stream,
       {.call = collective_call::all_reduce_sum(type, parts.size(), n),
        .parts = {parts.begin(), parts.end()},
        .to = to});
  const auto ends = slices(n, size());
  const auto begin = begin_of(ends, rank_);
  sum(stream, type, at(to, begin * element), begin, ends[std::size_t(rank_)]);
  group_->meet(rank_, &stream);
  {
    const local_group::reading everybody(*group_, rank_);
    for (int r = 0; r < size(); ++r) {
      const auto from = begin_of(ends, r) * element;
      const auto* const theirs = group_->offers_[std::size_t(r)].to;
      copy_unless_same(stream, at(to, from), at(theirs, from), size_of_cut(ends, r) * element);
    }
  }
  group_->meet(rank_, &stream);
}

void local_communicator::reduce_scatter_sum(
    stream& stream, dtype type, std::span<const void* const> parts, void* to, offsets ends) {
  meet(stream,
       {.call = collective_call::reduce_scatter_sum(type, parts.size(), ends),
        .parts = {parts.begin(), parts.end()}});
  sum(stream, type, to, begin_of(ends, rank_), ends[std::size_t(rank_)]);
  group_->meet(rank_, &stream);
}

void local_communicator::all_gather(stream& stream, const void* mine, void* to, offsets ends) {
  meet(stream, {.call = collective_call::all_gather(ends), .parts = {mine}});
  {
    const local_group::reading everybody(*group_, rank_);
    for (int r = 0; r < size(); ++r)
      copy_unless_same(stream,
                       at(to, begin_of(ends, r)),
                       group_->offers_[std::size_t(r)].parts[0],
                       size_of_cut(ends, r));
  }
  group_->meet(rank_, &stream);
}

void local_communicator::all_to_all(
    stream& stream, const void* from, offsets from_ends, void* to, offsets to_ends) {
  meet(stream, {.call = collective_call::all_to_all(from_ends), .parts = {from}});
  {
    const local_group::reading everybody(*group_, rank_);
    for (int r = 0; r < size(); ++r) {
      const auto& theirs = group_->offers_[std::size_t(r)];
      const auto bytes = size_of_cut(theirs.call.ends, rank_);
      ensure(bytes == size_of_cut(to_ends, r),
             "COLLECTIVE-4: a rank sends as much as the other expects");
      copy_unless_same(stream,
                       at(to, begin_of(to_ends, r)),
                       at(theirs.parts[0], begin_of(theirs.call.ends, rank_)),
                       bytes);
    }
  }
  group_->meet(rank_, &stream);
}

void local_communicator::broadcast(stream& stream, void* data, std::int64_t bytes, int root) {
  meet(stream, {.call = collective_call::broadcast(bytes, root), .parts = {data}});
  if (rank_ != root) {
    const local_group::reading everybody(*group_, rank_);
    copy_unless_same(stream, data, group_->offers_[std::size_t(root)].parts[0], bytes);
  }
  group_->meet(rank_, &stream);
}

std::shared_ptr<communicator> alone(axis_set along) {
  return std::make_shared<local_communicator>(
      std::make_shared<local_group>(along, 1, cancel_token()), 0);
}

}  // namespace troupe::runtime
