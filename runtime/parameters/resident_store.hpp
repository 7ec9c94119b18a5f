// The trivial store: everything resident in memory, in flat arrays.

#pragma once

#include "runtime/parameters/spec.hpp"
#include "runtime/parameters/store.hpp"
#include "runtime/tensor/tensor.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::runtime {

/// Values once, and one flat array of gradients for each logical replica that this worker hosts, so
/// that fewer workers than replicas give the same bits.
class resident_store final : public parameter_store {
 public:
  struct entry {
    parameter_spec spec;
    int unit = 0;
    std::int64_t value_offset = 0;     ///< in values(); that of its owner when it is tied here
    std::int64_t gradient_offset = 0;  ///< in gradients()
    int owner = -1;  ///< index of the entry it is tied to in this same store, else -1
    std::int64_t size() const { return spec.extents.size(); }
  };

  /// Values and gradients are zero. Offsets are multiples of 16 elements.
  resident_store(std::vector<unit_spec> units, int replicas, memory_pool pool);

  void acquire(int unit) override;
  void release(int unit) override;
  const float* value(int unit, int index) const override;
  float* gradient(int unit, int index) override;
  void emit(int unit) override;

  /// Which logical replica the following micro-batches belong to.
  void select_replica(int replica);

  /// Micro-batches emitted for the unit since zero_gradients, over all replicas.
  std::int64_t emitted(int unit) const { return emitted_.at(std::size_t(unit)); }
  void zero_gradients();

  const std::vector<unit_spec>& units() const { return units_; }
  const std::vector<entry>& entries() const { return entries_; }
  int replicas() const { return int(gradients_.size()); }
  std::span<float> values() { return {values_.data<float>(), std::size_t(values_.size())}; }
  std::span<float> gradients(int replica);

 private:
  const entry& at(int unit, int index) const {
    return entries_[std::size_t(first_[std::size_t(unit)]) + std::size_t(index)];
  }

  std::vector<unit_spec> units_;
  std::vector<entry> entries_;
  std::vector<int> first_;  ///< first entry of each unit
  std::vector<int> held_;   ///< acquisitions of each unit that were not released
  std::vector<std::int64_t> emitted_;
  tensor values_;
  std::vector<tensor> gradients_;
  float* current_ = nullptr;  ///< gradients of the selected replica
};

/// Draws the initial values: Megatron-LM's distribution, by random numbers that depend on nothing
/// but (seed, name, element).
void initialise(resident_store& store, std::uint64_t seed);

}  // namespace troupe::runtime
