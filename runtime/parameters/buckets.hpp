// Buckets: stretches of the gradients that are summed over the data axis at once, and of the values
// that are gathered at once; and which rank owns what of each.
//
// Rajbhandari et al.: "ZeRO", 2020, stage 1. As in Megatron-LM buckets are filled from the last
// parameter to the first, because gradients come in that order. Otherwise than there a cut never
// runs through a grain of a parameter: what is computed grain by grain (norms, digests) then has
// the same bits however many ranks share the work.

#pragma once

#include "runtime/parameters/store.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace troupe::runtime {

/// Elements of a parameter, counted from its beginning on its rank, that are never parted.
inline constexpr std::int64_t default_grain = 65536;

struct bucket {
  int first = 0, end = 0;  ///< entries, each but the first of which follows the one before
  /// Over whose replicas it is summed; nothing: its gradients are complete on each rank.
  std::optional<axis> along;
  int lowest_unit = 0;             ///< the last of its units to be emitted: then it is complete
  std::vector<std::int64_t> ends;  ///< of each replica's share, in elements from the first entry
  bool has_values = true;          ///< false: a tied copy, whose owner has them
  std::int64_t size() const { return ends.back(); }
};

/// In the order in which gradients are complete: the last entries first. Each ends with the
/// parameter with which it has `size` elements, and where parameters are summed along another axis
/// or lie elsewhere. It has as many shares as there are `ranks` along its axis, as even as grains
/// allow. A parameter that is tied, or has copies, has a bucket of its own, so that its uses are
/// cut alike wherever they are.
std::vector<bucket> make_buckets(const parameter_store& store,
                                 std::int64_t size,
                                 const axis_map<int>& ranks,
                                 std::int64_t grain = default_grain);

/// Valid elements [begin, end) of an entry.
struct entry_range {
  int entry = 0;
  std::int64_t begin = 0, end = 0;

  std::int64_t size() const { return end - begin; }
  friend bool operator==(const entry_range&, const entry_range&) = default;
};

/// What the replica with this rank along the axis of each bucket owns of every entry, in the order
/// of the entries; tied ones included.
std::vector<entry_range> owned_ranges(const parameter_store& store,
                                      const std::vector<bucket>& buckets,
                                      const axis_map<int>& ranks);

/// All of every entry: what each rank owns when nothing is sharded.
std::vector<entry_range> whole_ranges(const parameter_store& store);

}  // namespace troupe::runtime
