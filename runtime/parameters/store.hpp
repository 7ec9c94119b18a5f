// The parameter store: where layers find their parameters and leave their gradients, and where
// buckets, optimizer and worker find both.
//
// A layer never keeps a pointer. For the time of a pass it acquires a unit, reads, and releases;
// when the weight gradients of a micro-batch are in, it emits. What lies behind (memory here, a
// shard elsewhere, a file) is the store's affair: that is how sharding and offloading come in.

#pragma once

#include "runtime/core/cancel.hpp"
#include "runtime/parameters/spec.hpp"
#include "runtime/tensor/tensor.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace troupe::runtime {

/// One parameter of a store.
struct parameter_entry {
  parameter_spec spec;
  int unit = 0;
  int index = 0;           ///< in the store
  shape extents;           ///< of what lies here, padding rows included
  std::vector<box> boxes;  ///< what it is of the whole, without padding
  std::int64_t valid = 0;  ///< elements that are not padding: the first ones
  std::int64_t room = 0;   ///< elements from its beginning to where the next could begin
  /// Its arrays lie right behind those of the entry before, so that a bucket may span both.
  bool follows = false;
  int owner = -1;  ///< index of the entry it is tied to in this same store, else -1

  std::int64_t size() const { return extents.size(); }
  /// A copy of a parameter whose owner lives on another stage.
  bool is_foreign_copy() const { return owner < 0 && !spec.tied_to.empty(); }
  /// The name under which its values are known.
  const std::string& known_as() const { return spec.tied_to.empty() ? spec.name : spec.tied_to; }
};

/// The entries of units, for the rank that is so on each axis; `room` is a multiple of 16 elements,
/// and nothing follows anything. Broken promise STORE-1 where tied parameters differ in shape.
std::vector<parameter_entry> entries_of(const std::vector<unit_spec>& units,
                                        const axis_ranks& ranks);

/// Called by one lane, but for `open_gate`. `unit` and `index` count from 0 in the order of the
/// specifications, and so do entries. Arrays lie where the pool's blocks do: the host or a device.
class parameter_store {
 public:
  virtual ~parameter_store() = default;

  /// Of the values: f32, bf16 or f16. Gradients are f32.
  virtual dtype type() const = 0;
  virtual const std::vector<parameter_entry>& entries() const = 0;
  virtual const axis_ranks& axes() const = 0;
  virtual const memory_pool& pool() const = 0;
  /// Logical replicas with gradients of their own, so that fewer workers than replicas give the
  /// same bits.
  virtual int replicas() const = 0;

  // For layers.

  /// Makes the values of the unit readable until `release`. Nests. May wait for them to arrive, and
  /// then throws `cancelled`.
  virtual void acquire(int unit) = 0;
  virtual void release(int unit) = 0;
  virtual const void* value(int unit, int index) const = 0;

  /// Where this micro-batch's gradient is added, while the unit is acquired.
  virtual float* gradient(int unit, int index) = 0;
  /// Asked before `gradient`: whether the caller is the first of the step, and has to write all of
  /// it instead, whatever is there. True once for each entry of the selected replica after
  /// zero_gradients, if nobody asked for its gradient before: this, or the first question for the
  /// gradient, is where a step begins to need memory for it. A store may clear its gradients and
  /// always say false.
  virtual bool take_first_gradient(int, int) { return false; }
  /// Whether that is ever true.
  virtual bool writes_first_gradient() const { return false; }

  /// "The unit's weight gradients of this micro-batch are complete."
  virtual void emit(int unit) = 0;

  // For buckets, optimizer and worker, which reduce, update and gather between passes.

  /// Of an entry, from its beginning: the values that are updated, of type(), and the gradients of
  /// a logical replica. Those of an entry that follows another are `room` elements further on.
  virtual std::byte* values(int entry) = 0;
  virtual float* gradients(int replica, int entry) = 0;
  /// Broken promise STORE-7 where they were dropped.
  const std::byte* values(int entry) const;
  const float* gradients(int replica, int entry) const {
    return const_cast<parameter_store*>(this)->gradients(replica, entry);
  }

  /// Which logical replica the following micro-batches belong to.
  virtual void select_replica(int replica) = 0;
  /// Micro-batches emitted for the unit since zero_gradients, over all replicas.
  virtual std::int64_t emitted(int unit) const = 0;
  /// The gradients of each entry are zero, for who asks for that entry's, until some are added.
  /// Once its unit was emitted they are there without being asked for, behind those of another
  /// entry too.
  virtual void zero_gradients() = 0;
  /// Called by `emit`, after it has counted.
  virtual void on_emit(std::function<void(int unit)> then) = 0;

  /// From now on `acquire` waits for each unit until its gate opens, or the token is cancelled.
  /// Called while nothing is acquired.
  virtual void close_gate(const cancel_token& token) = 0;
  /// The values of the unit are in, or will be when the point is passed. Nothing to do where
  /// `close_gate` was not called before. Any thread.
  virtual void open_gate(int unit, std::shared_ptr<device_event> point = nullptr) = 0;
  /// Called by `acquire` with the point that the gate of a unit was opened with.
  virtual void on_gate_passed(std::function<void(const std::shared_ptr<device_event>&)> wait) = 0;

  /// The array in which all values lie, for who puts another of its size in its place, between
  /// passes: from then on that one has the values. Null: this store has no such array.
  virtual tensor* value_array() { return nullptr; }

  /// Nobody reads the gradients of this step any more. A store may give their memory back until
  /// somebody asks for them again, and then they are zero.
  virtual void drop_gradients() {}
  /// The same of a unit.
  virtual void drop_gradients_of(int) {}
  /// Else they have memory from the first question for them until they are dropped.
  virtual bool keeps_gradients() const { return true; }

  /// Nobody reads the values of the unit any more, from when it is released on, before all valid
  /// elements were written anew. A store may give their memory back until somebody asks where to
  /// write them: then padding is zero, and the rest undefined.
  virtual void drop_values(int) {}
  /// Whether it never does.
  virtual bool keeps_values() const { return true; }
  /// Whether the values of an entry are there, or are being written.
  virtual bool has_values(int) const { return true; }

  // What follows from these.

  /// Sets valid elements [begin, begin + from.size()) of an entry, rounded to type(), from the
  /// host.
  void set(const parameter_entry& e, std::int64_t begin, std::span<const float> from);
  /// The same with `n` elements that are rounded already.
  void set_rounded(const parameter_entry& e, std::int64_t begin, std::int64_t n, const void* from);
  /// To type(), on the host.
  void round(std::span<const float> from, void* to) const;

  /// Entries [first, end) of which each but the first follows the one before: ascending stretches
  /// that are all of the store.
  struct stretch {
    int first = 0, end = 0;
    std::int64_t size = 0;  ///< elements, padding and alignment included
  };
  std::vector<stretch> stretches_of_gradients() const;
  /// The same of values: without entries that are tied to another of the store.
  std::vector<stretch> stretches_of_values() const;
};

}  // namespace troupe::runtime
