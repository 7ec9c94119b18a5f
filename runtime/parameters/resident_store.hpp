// The trivial store: everything resident in memory, in flat arrays.

#pragma once

#include "runtime/core/cancel.hpp"
#include "runtime/parameters/spec.hpp"
#include "runtime/parameters/store.hpp"
#include "runtime/tensor/tensor.hpp"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
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
    shape extents;                     ///< of what lies here, padding rows included
    std::vector<box> boxes;            ///< what it is of the whole, without padding
    std::int64_t valid = 0;            ///< elements that are not padding: the first ones
    std::int64_t value_offset = 0;     ///< in values(); that of its owner when it is tied here
    std::int64_t gradient_offset = 0;  ///< in gradients()
    int owner = -1;  ///< index of the entry it is tied to in this same store, else -1

    std::int64_t size() const { return extents.size(); }
    /// A copy of a parameter whose owner lives on another stage.
    bool is_foreign_copy() const { return owner < 0 && !spec.tied_to.empty(); }
    /// The name under which its values are known.
    const std::string& known_as() const { return spec.tied_to.empty() ? spec.name : spec.tied_to; }
  };

  /// Values and gradients are zero. Offsets are multiples of 16 elements, and so is what there is
  /// in all.
  resident_store(std::vector<unit_spec> units,
                 int replicas,
                 memory_pool pool,
                 dtype type = dtype::f32,
                 tensor_seat seat = {});

  dtype type() const override { return values_.type(); }
  void acquire(int unit) override;
  void release(int unit) override;
  const void* value(int unit, int index) const override;
  float* gradient(int unit, int index) override;
  void emit(int unit) override;

  /// From now on `acquire` waits for each unit until its gate opens, or the token is cancelled.
  /// Called by the lane that acquires.
  void close_gate(const cancel_token& token);
  /// The values of the unit are in, or will be when the point is passed; without `close_gate`
  /// before they always were. Any thread.
  void open_gate(int unit, std::shared_ptr<device_event> point = nullptr);
  /// Called by `acquire` with the point that the gate of a unit was opened with.
  void on_gate_passed(std::function<void(const std::shared_ptr<device_event>&)> wait) {
    wait_ = std::move(wait);
  }

  /// Called by `emit`, after it has counted.
  void on_emit(std::function<void(int unit)> then) { then_ = std::move(then); }

  /// Which logical replica the following micro-batches belong to.
  void select_replica(int replica);

  /// Micro-batches emitted for the unit since zero_gradients, over all replicas.
  std::int64_t emitted(int unit) const { return emitted_.at(std::size_t(unit)); }
  void zero_gradients();

  const std::vector<unit_spec>& units() const { return units_; }
  const std::vector<entry>& entries() const { return entries_; }
  int replicas() const { return int(gradients_.size()); }
  std::int64_t gradient_size() const { return gradients_.front().size(); }
  tensor_seat seat() const { return seat_; }

  // The arrays lie where the pool's blocks do: the host or a device.

  /// All values, of type().
  tensor& all_values() { return values_; }
  /// Of an f32 store.
  std::span<float> values() { return {values_.data<float>(), std::size_t(values_.size())}; }
  /// Sets valid elements [begin, begin + from.size()) of an entry, rounded to type(), from the
  /// host.
  void set(const entry& e, std::int64_t begin, std::span<const float> from);
  /// The same with `n` elements that are rounded already.
  void set_rounded(const entry& e, std::int64_t begin, std::int64_t n, const void* from);
  /// To type(), on the host.
  void round(std::span<const float> from, void* to) const;
  std::span<float> gradients(int replica);  ///< of all entries, padding included
  const tensor& all_gradients(int replica) const { return gradients_.at(std::size_t(replica)); }
  const memory_pool& pool() const { return pool_; }

 private:
  const entry& at(int unit, int index) const {
    return entries_[std::size_t(first_[std::size_t(unit)]) + std::size_t(index)];
  }

  std::vector<unit_spec> units_;
  tensor_seat seat_;
  memory_pool pool_;
  std::vector<entry> entries_;
  std::vector<int> first_;  ///< first entry of each unit
  std::vector<int> held_;   ///< acquisitions of each unit that were not released
  std::vector<std::int64_t> emitted_;
  std::function<void(int)> then_;
  std::function<void(const std::shared_ptr<device_event>&)> wait_;
  tensor values_;
  std::vector<tensor> gradients_;
  float* current_ = nullptr;  ///< gradients of the selected replica

  struct parameter_gate {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<char> closed;  ///< of each unit
    std::vector<std::shared_ptr<device_event>> points;
    cancel_token token;
    std::shared_ptr<void> waker;
  };
  parameter_gate gate_;
};

}  // namespace troupe::runtime
