#include "runtime/parameters/resident_store.hpp"

#include "runtime/core/random.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr std::int64_t alignment = 16;  // floats: one cache line, one AVX-512 register

std::int64_t aligned(std::int64_t n) {
  return (n + alignment - 1) / alignment * alignment;
}

tensor zeros(memory_pool& pool, std::int64_t n) {
  tensor out(pool.allocate(std::size_t(n) * sizeof(float)), dtype::f32, {n});
  std::memset(out.raw(), 0, out.bytes());
  return out;
}

}  // namespace

resident_store::resident_store(std::vector<unit_spec> units, int replicas, memory_pool pool)
    : units_(std::move(units)), held_(units_.size()), emitted_(units_.size()) {
  std::int64_t values = 0, gradients = 0;
  for (std::size_t u = 0; u < units_.size(); ++u) {
    first_.push_back(int(entries_.size()));
    for (const auto& spec : units_[u].parameters) {
      entry e{spec, int(u), values, gradients};
      const auto owner = std::find_if(entries_.begin(), entries_.end(), [&](const entry& other) {
        return other.spec.name == spec.tied_to;
      });
      if (owner != entries_.end()) {
        ensure(owner->spec.extents == spec.extents, "STORE-1: tied parameters have one shape");
        e.owner = int(owner - entries_.begin());
        e.value_offset = owner->value_offset;
      } else {
        values += aligned(e.size());
      }
      gradients += aligned(e.size());
      entries_.push_back(std::move(e));
    }
  }
  values_ = zeros(pool, values);
  for (int r = 0; r < replicas; ++r)
    gradients_.push_back(zeros(pool, gradients));
  select_replica(0);
}

void resident_store::acquire(int unit) {
  ++held_.at(std::size_t(unit));
}

void resident_store::release(int unit) {
  auto& held = held_.at(std::size_t(unit));
  ensure(held > 0, "STORE-2: what is released was acquired");
  --held;
}

const float* resident_store::value(int unit, int index) const {
  ensure(held_[std::size_t(unit)] > 0, "STORE-3: values are read while their unit is acquired");
  return values_.data<float>() + at(unit, index).value_offset;
}

float* resident_store::gradient(int unit, int index) {
  ensure(held_[std::size_t(unit)] > 0, "STORE-4: gradients are added while their unit is acquired");
  return current_ + at(unit, index).gradient_offset;
}

void resident_store::emit(int unit) {
  ++emitted_.at(std::size_t(unit));
}

void resident_store::select_replica(int replica) {
  current_ = gradients_.at(std::size_t(replica)).data<float>();
}

void resident_store::zero_gradients() {
  for (auto& g : gradients_)
    std::memset(g.raw(), 0, g.bytes());
  std::fill(emitted_.begin(), emitted_.end(), 0);
}

std::span<float> resident_store::gradients(int replica) {
  auto& g = gradients_.at(std::size_t(replica));
  return {g.data<float>(), std::size_t(g.size())};
}

void initialise(resident_store& store, std::uint64_t seed) {
  const auto values = store.values();
  for (const auto& e : store.entries()) {
    if (e.owner >= 0)
      continue;
    const auto out = values.subspan(std::size_t(e.value_offset), std::size_t(valid_size(e.spec)));
    if (e.spec.init_std == 0) {
      std::fill(out.begin(), out.end(), float(e.spec.init_constant));
      continue;
    }
    // A tied copy on another stage draws what its owner draws.
    const auto& name = e.spec.tied_to.empty() ? e.spec.name : e.spec.tied_to;
    const auto key = random_key(seed, name, 0);
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = float(e.spec.init_std * standard_normal(key, i));
  }
}

}  // namespace troupe::runtime
