// Assigns the choices of a router to slots of experts, with a capacity per expert.
//
// A choice is (row r, position j): expert chosen[r, j]. Slots are in the order of experts; within
// an expert they are in the order of rows.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::runtime {

struct capacity_rules {
  double factor = 0;         ///< see capacity_of; 0: no limit
  bool by_position = false;  ///< an expert keeps its first rows; else those of the largest weights
  bool padded = false;       ///< each expert gets slots for its whole capacity
};

struct slot_plan {
  std::vector<std::int32_t> slot;     ///< (R, k); -1: dropped
  std::vector<std::int32_t> place;    ///< (S) r * k + j of each slot; -1: padding
  std::vector<std::int64_t> offsets;  ///< (E + 1) first slot of each expert, then S
  std::int64_t dropped = 0;           ///< choices without a slot
};

/// Rows that each of E experts takes: ceil(R * k / E * factor), at most R. Breaks SLOT-1 if the
/// factor is negative or NaN.
std::int64_t capacity_of(std::int64_t R, std::int64_t k, std::int64_t E, double factor);

/// `chosen` and `weights` are (R, k); a row chooses an expert at most once. Equal weights rank by
/// row; NaN ranks above all numbers. Without a limit, weights are not read and may be empty. Breaks
/// SLOT-1 if the rules cannot be met.
slot_plan plan_slots(std::span<const std::int32_t> chosen,
                     std::span<const float> weights,
                     std::int64_t k,
                     std::int64_t E,
                     const capacity_rules& rules = {});

}  // namespace troupe::runtime
