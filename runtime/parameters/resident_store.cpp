#include "runtime/parameters/resident_store.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {
namespace {

tensor zeros(memory_pool& pool, dtype type, std::int64_t n) {
  tensor out(pool.allocate(std::size_t(n) * size_of(type)), type, {n});
  pool.clear(out.raw(), out.bytes());
  return out;
}

}  // namespace

resident_store::resident_store(std::vector<unit_spec> units,
                               int replicas,
                               memory_pool pool,
                               dtype type,
                               const axis_ranks& ranks)
    : units_(std::move(units)),
      ranks_(ranks),
      pool_(std::move(pool)),
      entries_(entries_of(units_, ranks)),
      held_(units_.size()),
      emitted_(units_.size()),
      gate_(units_.size()) {
  std::int64_t values = 0, gradients = 0;
  for (auto& e : entries_) {
    if (int(first_.size()) <= e.unit)
      first_.resize(std::size_t(e.unit) + 1, e.index);
    e.follows = e.index > 0;
    value_offsets_.push_back(e.owner < 0 ? values : value_offsets_[std::size_t(e.owner)]);
    gradient_offsets_.push_back(gradients);
    values += e.owner < 0 ? e.room : 0;
    gradients += e.room;
  }
  values_ = zeros(pool_, type, values);
  for (int r = 0; r < replicas; ++r)
    gradients_.push_back(zeros(pool_, dtype::f32, gradients));
  select_replica(0);
}

void resident_store::acquire(int unit) {
  auto& held = held_.at(std::size_t(unit));
  gate_.pass(unit);
  ++held;
}

void resident_store::release(int unit) {
  auto& held = held_.at(std::size_t(unit));
  ensure(held > 0, "STORE-2: what is released was acquired");
  --held;
}

const void* resident_store::value(int unit, int index) const {
  ensure(held_[std::size_t(unit)] > 0, "STORE-3: values are read while their unit is acquired");
  return values(int(at(unit, index)));
}

float* resident_store::gradient(int unit, int index) {
  ensure(held_[std::size_t(unit)] > 0, "STORE-4: gradients are added while their unit is acquired");
  return current_ + gradient_offsets_[at(unit, index)];
}

void resident_store::emit(int unit) {
  ++emitted_.at(std::size_t(unit));
  if (then_)
    then_(unit);
}

std::byte* resident_store::values(int entry) {
  return values_.raw() + std::size_t(value_offsets_[std::size_t(entry)]) * size_of(type());
}

float* resident_store::gradients(int replica, int entry) {
  return gradients_.at(std::size_t(replica)).data<float>() + gradient_offsets_[std::size_t(entry)];
}

void resident_store::select_replica(int replica) {
  current_ = gradients_.at(std::size_t(replica)).data<float>();
}

void resident_store::zero_gradients() {
  for (auto& g : gradients_)
    pool_.clear(g.raw(), g.bytes());
  std::fill(emitted_.begin(), emitted_.end(), 0);
}

std::span<float> resident_store::gradients(int replica) {
  auto& g = gradients_.at(std::size_t(replica));
  return {g.data<float>(), std::size_t(g.size())};
}

}  // namespace troupe::runtime
