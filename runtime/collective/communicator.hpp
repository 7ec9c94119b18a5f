// Many ranks at once, along one axis.

#pragma once

#include "runtime/device/stream.hpp"
#include "runtime/layout/mesh.hpp"

#include <span>
#include <vector>

namespace troupe::runtime {

/// One rank's end of a group. Every rank of the group calls the same operations in the same order,
/// each on its own lane. Sums are taken in rank order, element by element, so that neither size,
/// bucket nor transport changes their bits.
///
/// A wait sleeps, and ends with `cancelled` as soon as the generation's token is set and nobody
/// reads this rank's arrays any more: whoever is told `cancelled` may free them.
class communicator {
 public:
  virtual ~communicator() = default;

  virtual axis along() const = 0;
  virtual int rank() const = 0;  ///< in the group
  virtual int size() const = 0;

  virtual void barrier() = 0;

  /// Sums arrays of n elements: of each rank all its `parts` (one for each logical replica that it
  /// hosts), in order. The sum replaces the first part of each rank; the other parts are left
  /// undefined. All ranks give equally many parts.
  virtual void all_reduce_sum(stream& on, std::span<float* const> parts, std::int64_t n) = 0;
};

}  // namespace troupe::runtime
