// A parameter store that keeps everything in memory, in flat arrays.

#pragma once

#include "runtime/parameters/parameter_gate.hpp"
#include "runtime/parameters/store.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace troupe::runtime {

/// Lifetime of the memory of gradients.
enum class gradient_memory : std::uint8_t {
  /// Allocated once, in one array per part. Needed for buckets that span units, and for
  /// addresses that peers have mapped.
  lasting,
  /// Allocated per unit at the first access to a gradient, and freed when gradients are dropped or
  /// zeroed. So gradients need no memory at the activation peak at the end of a forward pass.
  by_unit,
};

/// Lifetime of the memory of values. Frozen ones always last.
enum class value_memory : std::uint8_t {
  lasting,  ///< allocated once, in one array
  /// Allocated per unit, freed when dropped and allocated again when written. If values are rounded
  /// from master weights and gradients are `by_unit`, gradients and values use the memory in turn.
  until_dropped,
};

/// Holds one copy of the values, and gradients for each logical replica of this worker and each
/// source of experts. Each is one flat array, or one array per unit. The arrays of a source above 0
/// have only the entries with several sources; neighbours among them stay neighbours.
class resident_store final : public parameter_store {
 public:
  using entry = parameter_entry;

  /// Values and gradients start at zero. Entries begin at multiples of 16 elements, and array sizes
  /// are multiples of 16 as well. `values` is the array of another store of the same units, to be
  /// used as the values. With gradients `by_unit`, only the entries of one unit are contiguous.
  /// Breaks STORE-8 if values can be dropped and gradients cannot.
  resident_store(std::vector<unit_spec> units,
                 int replicas,
                 memory_pool pool,
                 dtype type = dtype::f32,
                 const axis_ranks& ranks = {},
                 tensor values = {},
                 gradient_memory memory = gradient_memory::lasting,
                 value_memory memory_of_values = value_memory::lasting,
                 source_sums sums = source_sums::together);

  dtype type() const override { return type_; }
  const std::vector<entry>& entries() const override { return entries_; }
  const axis_ranks& axes() const override { return ranks_; }
  const memory_pool& pool() const override { return pool_; }
  int replicas() const override { return replicas_; }
  source_sums sums() const override { return sums_; }

  void acquire(int unit) override;
  void release(int unit) override;
  const void* value(int unit, int index) const override;
  float* gradient(int unit, int index, int source = 0) override;
  bool take_first_gradient(int unit, int index, int source = 0) override;
  bool writes_first_gradient() const override { return true; }
  void emit(int unit) override;

  using parameter_store::gradients;
  using parameter_store::values;
  std::byte* values(int entry) override;
  float* gradients(int part, int entry) override;
  void select_replica(int replica) override;
  std::int64_t emitted(int unit) const override { return emitted_.at(std::size_t(unit)); }
  void zero_gradients() override;
  void drop_gradients() override;
  void drop_gradients_of(int unit) override;
  bool keeps_gradients() const override { return memory_ == gradient_memory::lasting; }
  void drop_values(int unit) override;
  bool keeps_values() const override { return memory_of_values_ == value_memory::lasting; }
  bool has_values(int e) const override { return bool(values_[array_of_values(e)]); }
  void on_emit(std::function<void(int unit)> then) override { then_ = std::move(then); }

  void close_gate(const cancel_token& token) override { gate_.close(token); }
  void open_gate(int unit, std::shared_ptr<device_event> point = nullptr) override {
    gate_.open(unit, std::move(point));
  }
  void on_gate_passed(std::function<void(const std::shared_ptr<device_event>&)> wait) override {
    gate_.on_passed(std::move(wait));
  }

  tensor* value_array() override { return keeps_values() ? &values_.front() : nullptr; }

  const std::vector<unit_spec>& units() const { return units_; }

  // The flat arrays; only for `lasting` memory.

  std::int64_t value_offset(const entry& e) const { return value_offsets_[std::size_t(e.index)]; }
  std::int64_t gradient_offset(const entry& e) const {
    return first_source_.offsets[std::size_t(e.index)];
  }
  std::int64_t gradient_size() const { return first_source_.sizes.front(); }
  /// All values, as elements of type().
  tensor& all_values() { return values_.front(); }
  /// Requires type() f32.
  std::span<float> values() {
    return {all_values().data<float>(), std::size_t(all_values().size())};
  }
  /// Gradients of all entries from the first source, including padding. STORE-6: requires
  /// gradient_memory::lasting.
  std::span<float> gradients(int replica);

 private:
  /// The arrays of a part of the gradients.
  struct gradient_arrays {
    std::vector<std::int64_t> sizes;    ///< elements per array
    std::vector<std::int64_t> offsets;  ///< per entry, within its array
  };

  const gradient_arrays& arrays_of(int part) const {
    return part < replicas_ ? first_source_ : further_sources_;
  }
  int part_of(int source) const { return source * replicas_ + replica_; }
  tensor& array_with(int part, std::size_t entry);
  void clear_if_stale(int part, std::size_t entry);
  std::size_t at(int unit, int index) const {
    return std::size_t(first_[std::size_t(unit)]) + std::size_t(index);
  }
  std::size_t array_of_values(int e) const { return std::size_t(value_array_of_[std::size_t(e)]); }
  /// Elements of type() that an entry's values and padding take.
  std::int64_t room_of_values(const entry& e) const {
    return e.room * std::int64_t(size_of(type_of(e)) / size_of(type_));
  }
  void allocate_values();
  tensor& values_with(int entry);
  void give_values_back(int unit);

  std::vector<unit_spec> units_;
  int replicas_;
  axis_ranks ranks_;
  memory_pool pool_;
  dtype type_;
  source_sums sums_;
  std::vector<entry> entries_;
  value_memory memory_of_values_;
  std::vector<std::int64_t> value_sizes_;  ///< elements of type() per array of values
  // Per entry, or of its owner if the entry is tied. Offsets are within the array.
  std::vector<int> value_array_of_;
  std::vector<std::int64_t> value_offsets_;
  gradient_memory memory_;
  gradient_arrays first_source_, further_sources_;
  std::vector<int> array_of_;  ///< per entry, the array of gradients
  std::vector<int> first_;     ///< first entry of each unit
  std::vector<int> held_;      ///< open acquisitions per unit
  std::vector<char> dropped_;  ///< per unit: free its values at release
  std::vector<std::int64_t> emitted_;
  std::function<void(int)> then_;
  parameter_gate gate_;
  std::vector<tensor> values_;                  ///< per array; empty if dropped
  std::vector<std::vector<tensor>> gradients_;  ///< per part and array; empty without memory
  /// Per part and entry without frozen ones: logically zero, but not cleared yet. The first
  /// access clears the entry, or overwrites all of it. After a unit's first micro-batch none of its
  /// entries is stale.
  std::vector<std::vector<char>> stale_;
  int replica_ = 0;  ///< the selected replica
};

}  // namespace troupe::runtime
