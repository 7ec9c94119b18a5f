#include "runtime/collective/staged_communicator.hpp"

#include "runtime/collective/offsets.hpp"
#include "runtime/core/waiting.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace troupe::runtime {

namespace {

memory_pool shared_by(memory_source from) {
  memory_pool out;
  out.share_by(std::move(from));
  return out;
}

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

}  // namespace

staged_communicator::staged_communicator(std::unique_ptr<communicator> group,
                                         memory_source from,
                                         bool beside)
    : group_(std::move(group)),
      host_(kernels::backend::cpu, 1, shared_by(std::move(from))),
      beside_(beside) {}

// A communication lane waits for the passes of the other lane, perhaps for seconds. That lane shows
// their progress, and is the root if the device hangs.
void staged_communicator::fetch(const stream& by,
                                void* to,
                                const void* from,
                                std::int64_t bytes) const {
  std::optional<flagged_wait> told;
  if (beside_)
    told.emplace(wait_reason{.what = "its device"});
  by.read(to, from, std::size_t(bytes));
}

std::byte* staged_communicator::room(std::int64_t bytes) {
  if (bytes > room_bytes_) {
    const auto larger = std::max(bytes, 2 * room_bytes_);  // few blocks: each has a descriptor
    room_bytes_ = 0;
    room_.reset();
    auto pool = host_.pool();
    room_ = pool.allocate_shared(std::size_t(larger));
    room_bytes_ = larger;
  }
  return room_.get();
}

std::vector<const void*> staged_communicator::read(stream& from,
                                                   std::span<const void* const> parts,
                                                   std::int64_t bytes) {
  auto* place = room(aligned(bytes) * std::int64_t(parts.size()));
  std::vector<const void*> out;
  for (const auto* part : parts) {
    fetch(from, place, part, bytes);
    out.push_back(place);
    place += aligned(bytes);
  }
  return out;
}

void staged_communicator::all_reduce_sum(
    stream& stream, dtype type, std::span<const void* const> parts, void* to, std::int64_t n) {
  const auto bytes = n * std::int64_t(size_of(type));
  const auto here = read(stream, parts, bytes);
  group_->all_reduce_sum(host_, type, here, room_.get(), n);  // the first part becomes the sum
  stream.write(to, room_.get(), std::size_t(bytes));
}

void staged_communicator::reduce_scatter_sum(
    stream& stream, dtype type, std::span<const void* const> parts, void* to, offsets ends) {
  const auto element = std::int64_t(size_of(type));
  const auto here = read(stream, parts, ends.back() * element);
  auto* const mine = at(room_.get(), begin_of(ends, rank()) * element);
  group_->reduce_scatter_sum(host_, type, here, mine, ends);
  stream.write(to, mine, std::size_t(size_of_cut(ends, rank()) * element));
}

void staged_communicator::all_gather(stream& stream, const void* mine, void* to, offsets ends) {
  const auto begin = begin_of(ends, rank()), bytes = size_of_cut(ends, rank());
  auto* const all = room(ends.back());
  fetch(stream, at(all, begin), mine, bytes);
  group_->all_gather(host_, at(all, begin), all, ends);
  copy_unless_same(stream, at(to, begin), mine, bytes);
  stream.write(to, all, std::size_t(begin));
  stream.write(
      at(to, begin + bytes), at(all, begin + bytes), std::size_t(ends.back() - begin - bytes));
}

void staged_communicator::all_to_all(
    stream& stream, const void* from, offsets from_ends, void* to, offsets to_ends) {
  const auto sent = aligned(from_ends.back());
  auto* const here = room(sent + to_ends.back());
  fetch(stream, here, from, from_ends.back());
  group_->all_to_all(host_, here, from_ends, at(here, sent), to_ends);
  stream.write(to, at(here, sent), std::size_t(to_ends.back()));
}

void staged_communicator::broadcast(stream& stream, void* data, std::int64_t bytes, int root) {
  auto* const here = room(bytes);
  if (rank() == root)
    fetch(stream, here, data, bytes);
  group_->broadcast(host_, here, bytes, root);
  if (rank() != root)
    stream.write(data, here, std::size_t(bytes));
}

}  // namespace troupe::runtime
