// Reads the bytes of other ranks in pieces that stay in the cache until they are added.

#include "runtime/collective/offsets.hpp"
#include "runtime/collective/ordered_sum.hpp"
#include "runtime/collective/window/communicator.hpp"
#include "runtime/core/error.hpp"

#include <algorithm>
#include <deque>

namespace troupe::runtime {

window_read window_communicator::read_of(int rank,
                                         std::size_t array,
                                         std::int64_t begin,
                                         std::span<std::byte> into) {
  const auto& from = offers_[std::size_t(rank)].arrays.at(array);
  return {.rank = rank,
          .round = round_,
          .array = array,
          .at = static_cast<const std::byte*>(from.at),
          .begin = begin,
          .into = into};
}

void window_communicator::finish(window_read& x) {
  auto& wire = group_->wire_of(x.rank);
  group_->await(rank_, [&] { return wire.is_ready(x); }, {.what = "bytes of another process"});
  if (!wire.finish(x))
    group_->await_release(rank_);
  auto& counters = group_->counters();
  (wire.reads_at_once() ? counters.bytes_read : counters.bytes_received) += x.into.size();
}

// Requests the distant parts of the next piece while one piece is added. Reads through the kernel
// happen just before the addition, into the same few buffers.
void window_communicator::sum(
    stream& stream, dtype type, void* to, std::int64_t begin, std::int64_t end) {
  require_summable(type);
  const auto element = std::int64_t(size_of(type));
  struct source {
    int rank;
    std::size_t part;
    std::shared_ptr<const std::byte> mapped;
  };
  const auto is_read
      = [&](const source& x) { return !group_->is_here(x.rank) && x.mapped == nullptr; };
  std::vector<source> all;
  std::int64_t others = 0;
  bool at_once = true;
  for (int r = 0; r < size(); ++r)
    for (std::size_t p = 0; p < offers_[std::size_t(r)].parts; ++p) {
      all.push_back({r, p, nullptr});
      if (!group_->is_here(r))
        all.back().mapped = group_->wire_of(r).map(offers_[std::size_t(r)].arrays[p]);
      if (is_read(all.back())) {
        ++others;
        at_once = at_once && group_->wire_of(r).reads_at_once();
      }
    }
  const auto& tuning = group_->tuning();
  const auto fitting = others == 0 ? tuning.stretch : tuning.cache / others;
  const auto bytes
      = others == 0 ? tuning.stretch : std::clamp(fitting, tuning.piece / 16, tuning.piece);
  const auto piece = std::max<std::int64_t>(bytes / element, 1);
  const auto count = (end - begin + piece - 1) / piece;
  const auto sets = at_once ? 1 : 2;
  const auto memory = stream.allocate(std::size_t(sets * others * piece * element));
  auto reads = std::vector<std::vector<window_read>>(std::size_t(sets));

  const auto length = [&](std::int64_t k) { return std::min(piece, end - begin - k * piece); };
  const auto start = [&](std::int64_t k) {
    auto& mine = reads[std::size_t(k % sets)];
    mine.clear();
    for (const auto& x : all) {
      if (!is_read(x))
        continue;
      auto* const place
          = memory.get() + (k % sets * others + std::int64_t(mine.size())) * piece * element;
      mine.push_back(read_of(x.rank,
                             x.part,
                             (begin + k * piece) * element,
                             {place, std::size_t(length(k) * element)}));
      group_->wire_of(x.rank).begin(mine.back());
    }
  };
  for (std::int64_t k = 0; k < std::min<std::int64_t>(sets, count); ++k)
    start(k);
  std::vector<const void*> sources;
  for (std::int64_t k = 0; k < count; ++k) {
    mark_progress();
    group_->check(rank_);
    for (auto& x : reads[std::size_t(k % sets)])
      finish(x);
    sources.clear();
    auto distant = reads[std::size_t(k % sets)].begin();
    for (const auto& x : all) {
      const auto from = (begin + k * piece) * element;
      if (is_read(x))
        sources.push_back((distant++)->into.data());
      else if (x.mapped != nullptr) {
        sources.push_back(x.mapped.get() + from);
        group_->counters().bytes_mapped += std::uint64_t(length(k) * element);
      } else
        sources.push_back(at(offers_[std::size_t(x.rank)].arrays[x.part].at, from));
    }
    {
      const window_group::reading here(*group_, rank_);
      ordered_sum(stream, type, at(to, k * piece * element), sources, length(k));
    }
    if (k + sets < count)
      start(k + sets);
  }
}

void window_communicator::fetch(stream& stream, const std::vector<move>& moves) {
  for (const auto& x : moves)
    if (group_->is_here(x.rank))
      fetch_here(stream, x);
  std::vector<move> rest;
  for (const auto& x : moves) {
    if (group_->is_here(x.rank))
      continue;
    const auto mapped
        = group_->wire_of(x.rank).map(offers_[std::size_t(x.rank)].arrays.at(x.array));
    if (mapped != nullptr)
      fetch_mapped(stream, x, mapped.get() + x.begin);
    else
      rest.push_back(x);
  }
  fetch_distant(rest);
}

void window_communicator::fetch_mapped(stream& stream, const move& x, const std::byte* from) {
  const auto most = group_->tuning().stretch;
  for (std::int64_t done = 0; done < x.bytes; done += most) {
    mark_progress();
    group_->check(rank_);
    const auto n = std::size_t(std::min(most, x.bytes - done));
    stream.copy(at(x.to, done), from + done, n);
    group_->counters().bytes_mapped += n;
  }
}

void window_communicator::fetch_here(stream& stream, const move& x) {
  const auto* const from = offers_[std::size_t(x.rank)].arrays.at(x.array).at;
  const auto most = group_->tuning().stretch;
  for (std::int64_t done = 0; done < x.bytes; done += most) {
    mark_progress();
    group_->check(rank_);
    const window_group::reading here(*group_, rank_);
    copy_unless_same(
        stream, at(x.to, done), at(from, x.begin + done), std::min(most, x.bytes - done));
  }
}

void window_communicator::fetch_distant(const std::vector<move>& moves) {
  const auto& tuning = group_->tuning();
  std::deque<window_read> under_way;
  const auto finish_first = [&] {
    mark_progress();
    group_->check(rank_);
    finish(under_way.front());
    under_way.pop_front();
  };
  for (const auto& x : moves) {
    auto& wire = group_->wire_of(x.rank);
    const auto most = wire.reads_at_once() ? tuning.stretch : tuning.piece;
    const auto ahead = std::size_t(wire.reads_at_once() ? 1 : tuning.ahead);
    for (std::int64_t done = 0; done < x.bytes; done += most) {
      const auto n = std::min(most, x.bytes - done);
      while (under_way.size() >= ahead)
        finish_first();
      under_way.push_back(
          read_of(x.rank, x.array, x.begin + done, {at(x.to, done), std::size_t(n)}));
      wire.begin(under_way.back());
    }
  }
  while (!under_way.empty())
    finish_first();
}

}  // namespace troupe::runtime
