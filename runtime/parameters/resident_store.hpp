// The trivial store: everything resident in memory, in flat arrays.

#pragma once

#include "runtime/parameters/parameter_gate.hpp"
#include "runtime/parameters/store.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace troupe::runtime {

/// How long gradients have memory.
enum class gradient_memory : std::uint8_t {
  /// Always, of a replica in one array: for who sums them with others, in buckets that span units,
  /// at addresses that others have mapped.
  lasting,
  /// Of a unit from the first question for one of its gradients until they are dropped, or are zero
  /// again: no gradients stand beside the activations of the end of a forward pass.
  by_unit,
};

/// The same of values.
enum class value_memory : std::uint8_t {
  lasting,  ///< in one array
  /// Of a unit until they are dropped, and again when they are written. For values that are rounded
  /// from masters, of who has gradients by unit: these take the memory of the values, and give it
  /// back for them.
  until_dropped,
};

/// Values once, and gradients for each logical replica that this worker hosts: in a flat array, or
/// one for each unit.
class resident_store final : public parameter_store {
 public:
  using entry = parameter_entry;

  /// Values and gradients are zero. What begins an entry is a multiple of 16 elements, and so is
  /// what there is in all. `values`: the array of another store of these units, to be the values.
  /// With gradients `by_unit` only those of a unit follow each other. Broken promise STORE-8 where
  /// values can be dropped and gradients cannot.
  resident_store(std::vector<unit_spec> units,
                 int replicas,
                 memory_pool pool,
                 dtype type = dtype::f32,
                 const axis_ranks& ranks = {},
                 tensor values = {},
                 gradient_memory memory = gradient_memory::lasting,
                 value_memory memory_of_values = value_memory::lasting);

  dtype type() const override { return type_; }
  const std::vector<entry>& entries() const override { return entries_; }
  const axis_ranks& axes() const override { return ranks_; }
  const memory_pool& pool() const override { return pool_; }
  int replicas() const override { return int(stale_.size()); }

  void acquire(int unit) override;
  void release(int unit) override;
  const void* value(int unit, int index) const override;
  float* gradient(int unit, int index) override;
  bool take_first_gradient(int unit, int index) override;
  bool writes_first_gradient() const override { return true; }
  void emit(int unit) override;

  using parameter_store::gradients;
  using parameter_store::values;
  std::byte* values(int entry) override;
  float* gradients(int replica, int entry) override;
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

  // The flat arrays, where they are lasting.

  std::int64_t value_offset(const entry& e) const { return value_offsets_[std::size_t(e.index)]; }
  std::int64_t gradient_offset(const entry& e) const {
    return gradient_offsets_[std::size_t(e.index)];
  }
  std::int64_t gradient_size() const { return arrays_.front(); }
  /// All values, of type().
  tensor& all_values() { return values_.front(); }
  /// Of an f32 store.
  std::span<float> values() {
    return {all_values().data<float>(), std::size_t(all_values().size())};
  }
  /// Of all entries, padding included. STORE-6: they are lasting.
  std::span<float> gradients(int replica);

 private:
  tensor& array_with(int replica, std::size_t entry);
  void clear_if_stale(int replica, std::size_t entry);
  std::size_t at(int unit, int index) const {
    return std::size_t(first_[std::size_t(unit)]) + std::size_t(index);
  }
  std::size_t array_of_values(int e) const { return std::size_t(value_array_of_[std::size_t(e)]); }
  void allocate_values();
  tensor& values_with(int entry);
  void give_values_back(int unit);

  std::vector<unit_spec> units_;
  axis_ranks ranks_;
  memory_pool pool_;
  dtype type_;
  std::vector<entry> entries_;
  value_memory memory_of_values_;
  std::vector<std::int64_t> value_sizes_;  ///< elements of each array of values
  // Of each entry; those of its owner when it is tied. The offset is in the array.
  std::vector<int> value_array_of_;
  std::vector<std::int64_t> value_offsets_;
  gradient_memory memory_;
  std::vector<std::int64_t> arrays_;            ///< elements of each array of gradients
  std::vector<int> array_of_;                   ///< of each entry
  std::vector<std::int64_t> gradient_offsets_;  ///< of each entry, in its array
  std::vector<int> first_;                      ///< first entry of each unit
  std::vector<int> held_;      ///< acquisitions of each unit that were not released
  std::vector<char> dropped_;  ///< of each unit: its values are, when it is released
  std::vector<std::int64_t> emitted_;
  std::function<void(int)> then_;
  parameter_gate gate_;
  std::vector<tensor> values_;                  ///< of each array; empty: dropped
  std::vector<std::vector<tensor>> gradients_;  ///< of each replica and array; empty: no memory
  /// Of each replica and entry: zero, but not cleared yet. Whoever asks for it first clears it, or
  /// writes to all of it; the unit's first micro-batch leaves none.
  std::vector<std::vector<char>> stale_;
  int replica_ = 0;  ///< the selected one
};

}  // namespace troupe::runtime
