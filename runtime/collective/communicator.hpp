// Collective operations of the ranks along one or several axes.

#pragma once

#include "runtime/device/stream.hpp"
#include "runtime/layout/mesh.hpp"
#include "runtime/tensor/dtype.hpp"

#include <span>

namespace troupe::runtime {

/// One rank's end of a group. All ranks of the group call the same operations with the same sizes
/// in the same order (COLLECTIVE-1; a transport reports violations that it can see). Each rank
/// calls from its own lane, one thread at a time. Sums add in rank order, element by element, in
/// f32, and round once. So size, bucket and transport do not change their bits.
///
/// `ends` cut an array: rank r has the elements [ends[r - 1], ends[r]), with ends[-1] = 0. They
/// count elements for sums, which take f32, bf16 and f16 (COLLECTIVE-3), and bytes for all other
/// operations.
///
/// A wait sleeps. It throws `cancelled` once the generation's token is set and no rank reads this
/// rank's arrays anymore. A caller that gets `cancelled` may free its arrays.
class communicator {
 public:
  using offsets = std::span<const std::int64_t>;

  virtual ~communicator() = default;

  virtual axis_set along() const = 0;
  virtual int rank() const = 0;  ///< rank in the group
  virtual int size() const = 0;
  /// True if other processes map this rank's arrays. They map arrays from
  /// memory_pool::allocate_shared, and copy pieces of all others.
  virtual bool maps_arrays() const { return false; }
  /// Nanoseconds of the lane's clock in which this rank's thread has waited for other ranks, since
  /// the group began. Waits of a device are not known. Called on that thread.
  virtual std::uint64_t waited_ns() const { return 0; }

  /// Throws as an operation does if the group has ended. Results that a device computed are then
  /// undefined: call it after a wait for them, before the host relies on them.
  virtual void check() {}

  virtual void barrier() = 0;

  /// `to` = sum of arrays of n elements: all `parts` of every rank (one per logical replica that it
  /// hosts), in order. `to` may be the first part; the other parts are not changed. All ranks have
  /// the same number of parts.
  virtual void all_reduce_sum(
      stream& stream, dtype type, std::span<const void* const> parts, void* to, std::int64_t n)
      = 0;

  /// Like all_reduce_sum, for this rank's cut only: `to` has ends[rank] - ends[rank - 1] elements.
  /// It may be that cut of the first part.
  virtual void reduce_scatter_sum(
      stream& stream, dtype type, std::span<const void* const> parts, void* to, offsets ends)
      = 0;

  /// `to` (ends.back() bytes) receives `mine` of every rank. `mine` may be this rank's cut of `to`.
  virtual void all_gather(stream& stream, const void* mine, void* to, offsets ends) = 0;

  /// Rank r receives the r-th cut of `from`; the r-th cut of `to` comes from rank r. Both sides
  /// agree on the size (COLLECTIVE-4).
  virtual void all_to_all(
      stream& stream, const void* from, offsets from_ends, void* to, offsets to_ends)
      = 0;

  /// Copies `data` from rank `root` to all ranks.
  virtual void broadcast(stream& stream, void* data, std::int64_t bytes, int root) = 0;
};

/// Equal cuts of n / size each. Breaks COLLECTIVE-2 if there is a remainder.
std::vector<std::int64_t> equal_ends(std::int64_t n, int size);

}  // namespace troupe::runtime
