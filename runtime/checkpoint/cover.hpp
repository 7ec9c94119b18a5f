// Checks that the pieces of a tensor cover it exactly once (CHECKPOINT-COVER).

#pragma once

#include "runtime/tensor/box.hpp"

#include <optional>
#include <span>
#include <string>

namespace troupe::runtime {

/// Returns nothing if each element of a tensor of extents `whole` is in exactly one piece. Else
/// returns the fault as the end of a sentence: "[0:4, 8:16] is in none of its 3 pieces". A reported
/// gap is as large as possible. Pieces must lie inside the tensor; an empty tensor has one piece.
/// Takes O(n log n) time for pieces cut by rows, columns or ranges.
std::optional<std::string> cover_fault(const shape& whole, std::span<const box> pieces);

}  // namespace troupe::runtime
