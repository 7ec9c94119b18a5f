// Buckets for the data axis: contiguous gradients that one all-reduce sums, and values that one
// all-gather collects. Also assigns each rank its share of every bucket.
//
// Rajbhandari et al.: "ZeRO", 2020, stage 1. As in Megatron-LM, buckets are filled from the last
// parameter to the first, because gradients arrive in that order. Unlike in Megatron-LM, shares are
// cut at grain boundaries only. So results computed per grain (norms, digests) have the same bits
// for any number of ranks.

#pragma once

#include "runtime/parameters/store.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace troupe::runtime {

/// Elements per grain, counted from the parameter's beginning on its rank. A grain is never split.
inline constexpr std::int64_t default_grain = 65536;

struct bucket {
  int first = 0, end = 0;  ///< entries [first, end); each but the first follows the previous one
  /// The data axis of the all-reduce; nothing if each rank already has the complete gradients.
  std::optional<axis> along;
  int lowest_unit = 0;             ///< the unit that is emitted last; its emit completes the bucket
  std::vector<std::int64_t> ends;  ///< ends of the replicas' shares, in elements from the first
                                   ///< entry
  bool has_values = true;          ///< false for a tied copy: its owner has the values
  std::int64_t size() const { return ends.back(); }
};

/// Buckets in the order in which gradients become complete: last entries first. A bucket ends with
/// the parameter that brings it to `size` elements, and wherever the data axis or the array
/// changes. It has one share per rank along its axis (`ranks`), as equal as grains allow. A tied
/// parameter, or one with tied copies, has a bucket of its own, so that all its copies are cut
/// alike.
std::vector<bucket> make_buckets(const parameter_store& store,
                                 std::int64_t size,
                                 const axis_map<int>& ranks,
                                 std::int64_t grain = default_grain);

struct entry_range {
  int entry = 0;
  std::int64_t begin = 0, end = 0;

  std::int64_t size() const { return end - begin; }
  friend bool operator==(const entry_range&, const entry_range&) = default;
};

/// The ranges of every entry that a replica owns, in the order of the entries, including tied
/// entries. `ranks` gives the replica's rank along the axis of each bucket.
std::vector<entry_range> owned_ranges(const parameter_store& store,
                                      const std::vector<bucket>& buckets,
                                      const axis_map<int>& ranks);

/// Every entry as a whole: the ranges that each rank owns without sharding.
std::vector<entry_range> whole_ranges(const parameter_store& store);

}  // namespace troupe::runtime
