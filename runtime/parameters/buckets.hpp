// Buckets for the sums over replicas: contiguous gradients that one all-reduce sums, and values
// that one all-gather collects. Also assigns each rank its share of every bucket.
//
// Rajbhandari et al.: "ZeRO", 2020, stage 1. As in Megatron-LM, buckets are filled from the last
// parameter to the first, because gradients arrive in that order. Unlike in Megatron-LM, shares are
// cut at grain boundaries only. So results computed per grain (norms, digests) have the same bits
// for any number of ranks.

#pragma once

#include "runtime/parameters/store.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace troupe::runtime {

/// Elements per grain, counted from the parameter's beginning on its rank; in a stack from that of
/// each matrix (STACK-1). A grain is never split.
inline constexpr std::int64_t default_grain = 65536;

struct bucket {
  int first = 0, end = 0;  ///< entries [first, end); each but the first follows the previous one
  axis_set along;       ///< axes of the all-reduce; empty if each rank has the complete gradients
  int lowest_unit = 0;  ///< the unit that is emitted last; its emit completes the bucket
  std::vector<std::int64_t> ends;  ///< ends of the replicas' shares, in elements from the first
                                   ///< entry
  bool has_values = true;          ///< false for a tied copy: its owner has the values
  bool frozen = false;             ///< has values only, which ranks share but never change
  std::int64_t size() const { return ends.back(); }
};

/// A number for the group along a set of axes.
using of_group = std::function<int(axis_set along)>;

/// Buckets in the order in which gradients become complete: last entries first. A bucket ends with
/// the parameter that brings it to `size` elements, and wherever the axes of the sum, the number of
/// gradients or the array change, or frozen parameters begin or end. It has one share per rank of
/// its group (`ranks`), as equal as grains allow. A parameter of statistics is in one share. A tied
/// parameter, or one with tied copies, has a bucket of its own, so that all its copies are cut
/// alike.
std::vector<bucket> make_buckets(const parameter_store& store,
                                 std::int64_t size,
                                 const of_group& ranks,
                                 std::int64_t grain = default_grain);

struct entry_range {
  int entry = 0;
  std::int64_t begin = 0, end = 0;

  std::int64_t size() const { return end - begin; }
  friend bool operator==(const entry_range&, const entry_range&) = default;
};

/// The ranges of every entry that a replica owns, ascending in the order of the entries, including
/// tied entries: one of an entry, of a stack one of each matrix. `rank` gives its rank in the group
/// of a bucket.
std::vector<entry_range> owned_ranges(const parameter_store& store,
                                      const std::vector<bucket>& buckets,
                                      const of_group& rank);

/// Every entry, and every matrix of a stack, as a whole: the ranges that each rank owns without
/// sharding.
std::vector<entry_range> whole_ranges(const parameter_store& store);

}  // namespace troupe::runtime
