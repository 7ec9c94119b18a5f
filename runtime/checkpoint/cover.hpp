// Whether the pieces of a tensor are the tensor (CHECKPOINT-COVER).

#pragma once

#include "runtime/tensor/box.hpp"

#include <optional>
#include <span>
#include <string>

namespace troupe::runtime {

/// Nothing when every element of a tensor of extents `whole` is in exactly one of `pieces`; else
/// what is wrong, as the end of a sentence: "[0:4, 8:16] is in none of its 3 pieces". The box of a
/// gap is as large as the gap allows. Pieces lie inside the tensor; a tensor without elements has
/// one piece, which is all of it. O(n log n) for the cuts that occur: rows, columns, ranges.
std::optional<std::string> cover_fault(const shape& whole, std::span<const box> pieces);

}  // namespace troupe::runtime
