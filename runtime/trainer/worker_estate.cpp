// A worker's use of the estate of its rank.

#include "runtime/state/state_check.hpp"
#include "runtime/trainer/worker.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

/// Lends the arrays to a stream, which waits for writes of other streams.
rank_estate::chunks lent(const rank_estate::chunks& all, const stream& to) {
  auto out = all;
  for (auto& [id, part] : out)
    for (auto* const array : {&part.arrays.weights, &part.arrays.kept})
      *array = tensor(lend(array->block(), to.queue()), array->type(), array->extents());
  return out;
}

void clear(const rank_estate::chunks& all, stream& stream) {
  for (const auto& [id, part] : all)
    for (auto array : {part.arrays.weights, part.arrays.kept})
      stream.clear(array.raw(), array.bytes());
}

/// Makes the next user wait for pending work of the stream. A failed stream has none.
void leave(rank_estate& estate, stream& stream) noexcept {
  try {
    const auto done = stream.mark();
    for (const int which : {0, 1})
      for (const auto& [id, part] : estate.arrays(which))
        for (const auto* const array : {&part.arrays.weights, &part.arrays.kept})
          publish(array->block(), done);
  } catch (...) {
  }
  estate.leave();
}

}  // namespace

bool worker::enter_estate() {
  auto& estate = settings_.estate;
  if (estate == nullptr)
    return false;
  estate->enter();
  stay_ = std::shared_ptr<void>(nullptr, [estate, this](void*) { leave(*estate, stream_); });
  if (estate->is_blank())
    return false;
  slots_ = {lent(estate->arrays(0), stream_), lent(estate->arrays(1), stream_)};
  for (const auto& which : settings_.chunks)
    ensure(slots_[0].contains(which.id) && slots_[0].size() == settings_.chunks.size(),
           "WORKER-11: the estate of a worker is of the chunks that it hosts");
  if (estate->newest())
    return true;
  for (const auto& all : slots_)
    clear(all, stream_);
  return false;
}

const state_arrays* worker::found_of(chunk_id id) const {
  const auto found = slots_[0].find(id);
  return found == slots_[0].end() ? nullptr : &found->second.arrays;
}

void worker::settle_estate(bool begins) {
  if (settings_.estate == nullptr)
    return;
  if (settings_.estate->is_blank()) {
    auto pool = stream_.pool();
    for (const auto& [id, home] : homes_) {
      const auto own = home->optimizer.own_weights();
      slots_[0][id] = {home->optimizer.arrays(), own};
      slots_[1][id] = {home->optimizer.empty_arrays(pool), own};
    }
    settings_.estate->allot(slots_[0], slots_[1]);
  }
  for (const auto& [id, home] : homes_)
    settings_.estate->describe(id,
                               std::make_shared<const digested_chunk>(digested_chunk{
                                   settings_.grain, home->answers(), home->optimizer.digested()}));
  if (begins)
    return;
  check_digests();  // ESTATE-6
  for (const auto& [id, home] : homes_)
    home->optimizer.round_values(stream_);
}

void worker::check_digests() const {
  if (homes_.empty() || stream_.pool().is_shadow())
    return;  // without chunks it reads no arrays of the estate
  const auto& estate = *settings_.estate;
  const auto iteration = estate.newest()->last;
  const auto sealed = estate.digests(iteration);
  const auto found = digests();
  auto name = first_difference(sealed.own, found.own);
  if (name.empty())
    name = first_difference(sealed.copies, found.copies);
  if (!name.empty())
    throw damaged_state(estate.rank(), std::move(name), iteration);
}

void worker::seal(std::uint64_t iteration, const state_digests& digests) {
  ensure(settings_.estate != nullptr, "WORKER-10: a worker without an estate keeps no state");
  // A copier waits for the stream's work up to here, even if this worker hangs later.
  if (const auto done = stream_.mark())
    for (const auto& all : slots_)
      for (const auto& [id, part] : all)
        for (const auto* const array : {&part.arrays.weights, &part.arrays.kept})
          publish(array->block(), done);
  settings_.estate->seal(iteration, digests);
}

void worker::skip(std::uint64_t iteration) {
  ensure(settings_.estate != nullptr, "WORKER-10: a worker without an estate keeps no state");
  settings_.estate->skip(iteration);
}

}  // namespace troupe::runtime
