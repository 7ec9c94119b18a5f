// How often a micro-batch's actions stand in a plan, and whose are wrong, in words.

#pragma once

#include <compare>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Of one micro-batch and block of a stage. What it needs: F once; B, or I and W, `back` times; R
/// `again` times.
struct block_tally {
  int f = 0, b = 0, r = 0, i = 0, w = 0;

  auto operator<=>(const block_tally&) const = default;

  bool is_complete(int back, int again) const;
  /// "F and B"; empty: something is there too often.
  std::string missing(int back, int again) const;
};

/// "micro-batch 7", or "5 micro-batches (0 to 2, 6, 7)". Ascending.
std::string list_of_microbatches(const std::vector<int>& numbers);

}  // namespace troupe::runtime
