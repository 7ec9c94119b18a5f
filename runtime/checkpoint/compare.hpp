// Two checkpoints, element by element, whatever cut saved them.

#pragma once

#include "runtime/checkpoint/checkpoint.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace troupe::runtime {

struct tensor_difference {
  std::int64_t elements = 0;   ///< of the tensor
  std::int64_t different = 0;  ///< in any bit
  /// Absolute; infinite where one side is no number and the other is one. Nothing for types that
  /// floats do not hold.
  std::optional<double> largest = {};
};

/// Compares a tensor that both have with the same extents, box by box: at most `memory` bytes of
/// each side are held. Elements of two types are compared as floats. `advance` is told how many
/// elements were compared since it was last told. Throws input_error when a piece is damaged.
tensor_difference compare(const checkpoint_reader& a,
                          const checkpoint_reader& b,
                          std::string_view name,
                          const std::function<void(std::int64_t)>& advance = {},
                          std::size_t memory = std::size_t{16} << 20);

}  // namespace troupe::runtime
