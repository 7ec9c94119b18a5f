#include "runtime/collective/local/local_group.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <cstring>

namespace troupe::runtime {
namespace {

/// Where the slice of rank r begins: whole cache lines, so that no two ranks write one.
std::int64_t slice_begin(std::int64_t n, int r, int size) {
  const auto each = (n / size + 15) / 16 * 16;
  return std::min(n, each * r);
}

}  // namespace

local_group::local_group(axis along, int size, cancel_token generation)
    : along_(along), size_(size), token_(std::move(generation)), parts_(std::size_t(size)) {
  waker_ = token_.on_cancel([this] {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  });
}

void local_group::meet() {
  std::unique_lock lock(mutex_);
  if (token_.is_cancelled())
    leave(lock);
  const auto round = round_;
  if (++arrived_ == size_) {
    arrived_ = 0;
    ++round_;
    changed_.notify_all();
    return;
  }
  changed_.wait(lock, [&] { return round_ != round || token_.is_cancelled(); });
  if (round_ == round)
    leave(lock);
}

void local_group::leave(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [&] { return readers_ == 0; });
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

// Each rank sums one slice over everybody's arrays, in its own place; then everybody fetches the
// other slices. A slice is read by its rank alone until the second meeting.
void local_communicator::all_reduce_sum(stream& on, std::span<float* const> parts, std::int64_t n) {
  auto& all = group_->parts_;
  all[std::size_t(rank_)].assign(parts.begin(), parts.end());
  barrier();
  const auto begin = slice_begin(n, rank_, size());
  const auto end = rank_ + 1 == size() ? n : slice_begin(n, rank_ + 1, size());
  std::vector<const float*> sources;
  for (const auto& of_rank : all)
    for (const auto* part : of_rank)
      sources.push_back(part + begin);
  if (end > begin) {
    const local_group::reading everybody(*group_);
    on.run(kernels::ordered_sum<float>{
        parts[0] + begin, sources.data(), std::int64_t(sources.size()), end - begin});
  }
  barrier();
  {
    const local_group::reading everybody(*group_);
    for (int r = 0; r < size(); ++r) {
      const auto from = slice_begin(n, r, size());
      const auto to = r + 1 == size() ? n : slice_begin(n, r + 1, size());
      if (r != rank_ && to > from)
        std::memcpy(
            parts[0] + from, all[std::size_t(r)][0] + from, std::size_t(to - from) * sizeof(float));
    }
  }
  barrier();
}

}  // namespace troupe::runtime
