// The parameter store: where layers find their parameters and leave their gradients.
//
// A layer never keeps a pointer. For the time of a pass it acquires a unit, reads, and releases;
// when the weight gradients of a micro-batch are in, it emits. What lies behind (memory here, a
// shard elsewhere, a file) is the store's affair: that is how sharding and offloading come in.

#pragma once

#include "runtime/tensor/dtype.hpp"

#include <cstdint>

namespace troupe::runtime {

/// Called by one lane. `unit` and `index` count from 0 in the order of the specifications.
class parameter_store {
 public:
  virtual ~parameter_store() = default;

  /// Of the values: f32, bf16 or f16. Gradients are f32.
  virtual dtype type() const = 0;

  /// Makes the values of the unit readable until `release`. Nests. May wait for them to arrive, and
  /// then throws `cancelled`.
  virtual void acquire(int unit) = 0;
  virtual void release(int unit) = 0;
  virtual const void* value(int unit, int index) const = 0;

  /// Where this micro-batch's gradient is added, while the unit is acquired.
  virtual float* gradient(int unit, int index) = 0;

  /// "The unit's weight gradients of this micro-batch are complete."
  virtual void emit(int unit) = 0;
};

}  // namespace troupe::runtime
