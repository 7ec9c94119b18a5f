// Compares two checkpoints element by element, independent of how they are sharded.

#pragma once

#include "runtime/checkpoint/checkpoint.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace troupe::runtime {

struct tensor_difference {
  std::int64_t elements = 0;   ///< elements of the tensor
  std::int64_t different = 0;  ///< elements that differ in any bit
  /// Largest absolute difference; infinite if only one side is NaN. Empty for types that float
  /// cannot represent.
  std::optional<double> largest = {};
};

/// Compares a tensor of equal extents in both checkpoints, box by box, with at most `memory` bytes
/// per side. Elements of different types are compared as floats. `advance` receives the number of
/// elements compared since its last call. Throws input_error if a piece is damaged.
tensor_difference compare(const checkpoint_reader& a,
                          const checkpoint_reader& b,
                          std::string_view name,
                          const std::function<void(std::int64_t)>& advance = {},
                          std::size_t memory = std::size_t{16} << 20);

}  // namespace troupe::runtime
