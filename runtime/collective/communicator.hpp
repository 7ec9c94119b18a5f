// Many ranks at once, along one axis.

#pragma once

#include "runtime/device/stream.hpp"
#include "runtime/layout/mesh.hpp"
#include "runtime/tensor/dtype.hpp"

#include <span>

namespace troupe::runtime {

/// One rank's end of a group. Every rank of the group calls the same operations with the same sizes
/// in the same order (COLLECTIVE-1; where a transport can see that they do not, it says so), each
/// on a lane of its own; one thread at a time. Sums are taken in rank order, element by element, in
/// f32, and rounded once: neither size, bucket nor transport changes their bits.
///
/// Arrays that are cut have `ends`: of rank r are the elements [ends[r - 1], ends[r]), and ends[-1]
/// is 0. They count elements in sums, which take f32, bf16 and f16 (COLLECTIVE-3), and bytes in
/// whatever only moves.
///
/// A wait sleeps, and ends with `cancelled` as soon as the generation's token is set and nobody
/// reads this rank's arrays any more: a caller that is told `cancelled` may free them.
class communicator {
 public:
  using offsets = std::span<const std::int64_t>;

  virtual ~communicator() = default;

  virtual axis along() const = 0;
  virtual int rank() const = 0;  ///< in the group
  virtual int size() const = 0;
  /// Other processes use this rank's arrays where they lie, if they come from
  /// memory_pool::allocate_shared, and copy pieces of any others first.
  virtual bool maps_arrays() const { return false; }

  virtual void barrier() = 0;

  /// `to` = the sum of arrays of n elements: of each rank all its `parts` (one for each logical
  /// replica that it hosts), in order. `to` may be the first part; parts are not changed otherwise.
  /// All ranks give equally many parts.
  virtual void all_reduce_sum(
      stream& stream, dtype type, std::span<const void* const> parts, void* to, std::int64_t n)
      = 0;

  /// The same for this rank's cut alone: `to` has ends[rank] - ends[rank - 1] elements, and may lie
  /// in the first part at their place.
  virtual void reduce_scatter_sum(
      stream& stream, dtype type, std::span<const void* const> parts, void* to, offsets ends)
      = 0;

  /// `to`, ends.back() bytes, receives everybody's `mine`; that may lie in `to` at its place.
  virtual void all_gather(stream& stream, const void* mine, void* to, offsets ends) = 0;

  /// Rank r receives the r-th cut of `from`; the r-th cut of `to` comes from rank r, as large on
  /// both sides (COLLECTIVE-4).
  virtual void all_to_all(
      stream& stream, const void* from, offsets from_ends, void* to, offsets to_ends)
      = 0;

  /// `data` becomes what it is on rank `root`.
  virtual void broadcast(stream& stream, void* data, std::int64_t bytes, int root) = 0;
};

/// Equal cuts: n / size each, of which there is no remainder (COLLECTIVE-2).
std::vector<std::int64_t> equal_ends(std::int64_t n, int size);

}  // namespace troupe::runtime
