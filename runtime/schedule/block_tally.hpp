// Counts the actions of each micro-batch in a plan, and describes wrong counts.

#pragma once

#include <compare>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Counts for one micro-batch and block of a stage. Required: F once; B, or I and W, `back` times;
/// R `again` times.
struct block_tally {
  int f = 0, b = 0, r = 0, i = 0, w = 0;

  auto operator<=>(const block_tally&) const = default;

  bool is_complete(int back, int again) const;
  /// "F and B"; empty: some action occurs too often.
  std::string missing(int back, int again) const;
};

/// "micro-batch 7", or "5 micro-batches (0 to 2, 6, 7)". Ascending.
std::string list_of_microbatches(const std::vector<int>& numbers);

}  // namespace troupe::runtime
