#include "runtime/state/rank_estate.hpp"

#include "runtime/tensor/moves.hpp"

namespace troupe::runtime {
namespace {

constexpr const char* one_worker = "ESTATE-1: an estate is used by one worker at a time";
constexpr const char* from_a_state
    = "ESTATE-2: an update begins with a sealed state and ends before the next";
constexpr const char* ascending = "ESTATE-3: states are sealed, or kept, iteration by iteration";
constexpr const char* only_what_is_held
    = "ESTATE-4: only a state that the estate holds is asked for";

tensor zeros(stream& stream, const shape& extents) {
  auto pool = stream.pool();
  tensor out(pool.allocate_apart(std::size_t(extents.size()) * sizeof(float)), dtype::f32, extents);
  stream.clear(out.raw(), out.bytes());
  return out;
}

/// Makes zeros in memory that other ranks can read, for weights that they gather.
tensor shared_zeros(stream& stream, std::int64_t n) {
  auto pool = stream.pool();
  tensor out(pool.allocate_shared(std::size_t(n) * sizeof(float)), dtype::f32, {n});
  stream.clear(out.raw(), out.bytes());
  return out;
}

/// Makes the device wait for writes of another queue.
const float* readable(stream& stream, const tensor& x, std::vector<memory_block>& until_done) {
  until_done.push_back(lend(x.block(), stream.queue()));
  return reinterpret_cast<const float*>(until_done.back().get());
}

}  // namespace

damaged_state::damaged_state(std::string rank, std::string parameter, std::uint64_t iteration)
    : error(
        fmt::format("the state of step {} is damaged: on {} the bytes of {} are no longer those "
                    "that were sealed; resume from another copy of the state",
                    iteration,
                    rank,
                    parameter)),
      rank_(std::move(rank)),
      parameter_(std::move(parameter)),
      iteration_(iteration) {}

std::optional<iteration_range> rank_estate::newest() const {
  const std::lock_guard lock(mutex_);
  return slots_[std::size_t(newest_)].of;
}

const rank_estate::slot* rank_estate::find(std::uint64_t iteration) const {
  for (const auto& x : slots_)
    if (x.of && x.of->has(iteration))
      return &x;
  return nullptr;
}

const rank_estate::slot& rank_estate::held(std::uint64_t iteration) const {
  const auto* const found = find(iteration);
  ensure(found != nullptr, only_what_is_held);
  return *found;
}

bool rank_estate::holds(std::uint64_t iteration) const {
  const std::lock_guard lock(mutex_);
  return find(iteration) != nullptr;
}

state_digests rank_estate::digests(std::uint64_t iteration) const {
  const std::lock_guard lock(mutex_);
  return held(iteration).digests;
}

rank_estate::extents rank_estate::bytes() const {
  const std::lock_guard lock(mutex_);
  extents out;
  for (const auto& x : slots_)
    for (const auto& [id, part] : x.parts) {
      out.weights += std::int64_t(part.arrays.weights.bytes());
      out.optimizer += std::int64_t(part.arrays.kept.bytes());
    }
  return out;
}

void rank_estate::go_back_to(std::uint64_t iteration) {
  const std::lock_guard lock(mutex_);
  ensure(!used_, one_worker);
  const auto found = int(&held(iteration) - slots_.data());
  writing_ = false;
  if (found != newest_)
    slots_[std::size_t(newest_)].of.reset();
  newest_ = found;
  slots_[std::size_t(newest_)].of->last = iteration;
}

rank_state rank_estate::state_of(const slot& from) {
  rank_state out{.digests = from.digests};
  for (const auto& [id, x] : from.parts) {
    auto& part = out.parts[id];
    part = {x.arrays.weights.size(), x.own_weights, {}, x.arrays.kept, x.digested};
    for (const auto& [begin, end] : x.own_weights)
      part.weights.push_back(x.arrays.weights.slice(begin, shape{end - begin}));
  }
  return out;
}

rank_state rank_estate::state(std::uint64_t iteration) const {
  const std::lock_guard lock(mutex_);
  return state_of(held(iteration));
}

// The lock prevents an update, which could choose the slot that is read. The worker may still write
// values that other ranks own.
std::shared_ptr<rank_estate> rank_estate::copied(std::uint64_t iteration, stream& stream) const {
  const std::lock_guard lock(mutex_);
  const auto& from = held(iteration);
  auto out = made_of(state_of(from), iteration, rank_, stream);
  out->slots_[0].of->first = from.of->first;
  return out;
}

std::shared_ptr<rank_estate> rank_estate::made_of(const rank_state& from,
                                                  std::uint64_t iteration,
                                                  std::string rank,
                                                  stream& stream) {
  auto out = std::make_shared<rank_estate>(std::move(rank));
  std::vector<memory_block> until_done;
  for (const auto& [id, x] : from.parts) {
    const auto blank = [&, &part = x] {
      return chunk_part{{shared_zeros(stream, part.elements), zeros(stream, part.kept.extents())},
                        part.own_weights,
                        part.digested};
    };
    auto& first = out->slots_[0].parts.emplace(id, blank()).first->second.arrays;
    out->slots_[1].parts.emplace(id, blank());
    for (std::size_t i = 0; i < x.weights.size(); ++i)
      stream.copy(first.weights.data<float>() + x.own_weights[i].first,
                  readable(stream, x.weights[i], until_done),
                  x.weights[i].bytes());
    stream.copy(first.kept.raw(), readable(stream, x.kept, until_done), x.kept.bytes());
  }
  out->slots_[0].of = {iteration, iteration};
  out->slots_[0].digests = from.digests;
  stream.finish();
  for (const auto& x : out->slots_)
    for (const auto& [id, part] : x.parts)
      for (const auto* const array : {&part.arrays.weights, &part.arrays.kept})
        publish(array->block(), stream.mark());
  return out;
}

void rank_estate::enter() {
  const std::lock_guard lock(mutex_);
  ensure(!used_, one_worker);
  used_ = true;
}

void rank_estate::leave() {
  const std::lock_guard lock(mutex_);
  used_ = false;
}

bool rank_estate::is_blank() const {
  const std::lock_guard lock(mutex_);
  return slots_[0].parts.empty();
}

void rank_estate::allot(chunks first, chunks second) {
  const std::lock_guard lock(mutex_);
  slots_[0].parts = std::move(first);
  slots_[1].parts = std::move(second);
}

void rank_estate::describe(chunk_id chunk, std::shared_ptr<const digested_chunk> what) {
  const std::lock_guard lock(mutex_);
  for (auto& x : slots_)
    if (const auto found = x.parts.find(chunk); found != x.parts.end())
      found->second.digested = what;
}

rank_estate::chunks rank_estate::arrays(int which) const {
  const std::lock_guard lock(mutex_);
  return slots_[std::size_t(which == 0 ? newest_ : 1 - newest_)].parts;
}

void rank_estate::begin_update() {
  const std::lock_guard lock(mutex_);
  ensure(slots_[std::size_t(newest_)].of && !writing_, from_a_state);
  writing_ = true;  // ESTATE-5: before the first write
  slots_[std::size_t(1 - newest_)].of.reset();
}

void rank_estate::seal(std::uint64_t iteration, const state_digests& digests) {
  const std::lock_guard lock(mutex_);
  const auto& before = slots_[std::size_t(newest_)].of;
  ensure(!before || (writing_ && iteration == before->last + 1), ascending);
  if (writing_)
    newest_ = 1 - newest_;
  writing_ = false;
  auto& to = slots_[std::size_t(newest_)];
  to.of = {iteration, iteration};
  to.digests = digests;
}

void rank_estate::skip(std::uint64_t iteration) {
  const std::lock_guard lock(mutex_);
  auto& of = slots_[std::size_t(newest_)].of;
  ensure(of && !writing_, from_a_state);
  ensure(iteration == of->last + 1, ascending);
  of->last = iteration;
}

void rank_estate::begin_anew() {
  const std::lock_guard lock(mutex_);
  if (writing_)
    newest_ = 1 - newest_;
  writing_ = false;
  for (auto& x : slots_)
    x.of.reset();
}

}  // namespace troupe::runtime
