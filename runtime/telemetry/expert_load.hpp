// Rows of experts in a step: the counts of a rank, their sum over all ranks, and what logs show.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Choices of a unit's router in forward passes. Integers, so sums are exact in any order.
struct expert_rows {
  std::int64_t unit = 0;                  ///< of the model
  std::int64_t dropped = 0;               ///< choices beyond the capacity of their expert
  std::vector<std::int64_t> counts = {};  ///< rows of each expert, without dropped choices

  friend bool operator==(const expert_rows&, const expert_rows&) = default;
};

/// Adds the counts of one unit to those of several units, which stay ascending. Breaks STEP-12 if
/// the unit has another number of experts there, or a count is negative or above 2^44.
void add_to(std::vector<expert_rows>& to, const expert_rows& x);
void add_to(std::vector<expert_rows>& to, const std::vector<expert_rows>& all);

/// The experts of a layer in a step.
struct expert_load {
  std::string layer;                      ///< name of the unit: "decoder.layers.3"
  std::int64_t most = 0, least = 0;       ///< rows of an expert
  std::int64_t dropped = 0;               ///< as in expert_rows
  double entropy = 0;                     ///< of the experts' shares of the rows, over its maximum
  std::vector<std::int64_t> counts = {};  ///< as in expert_rows; empty: not requested

  friend bool operator==(const expert_load&, const expert_load&) = default;
};

expert_load load_of(const expert_rows& x, std::string layer, bool with_counts);
/// The extremes over these layers, with the lowest entropy, and the sum of the dropped choices.
/// There is at least one layer.
expert_load load_of(const std::vector<expert_load>& layers);

}  // namespace troupe::runtime
