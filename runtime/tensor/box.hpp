// A box: a rectangular part of a tensor.
//
// Tensor parallelism, the distributed optimizer and checkpoint files describe their parts as boxes.
// So any partition can be assembled from any other.

#pragma once

#include "runtime/tensor/shape.hpp"

#include <string>
#include <vector>

namespace troupe::runtime {

/// Elements first[i] <= index[i] < first[i] + extents[i] for each dimension i.
struct box {
  shape first;    ///< (rank) indices
  shape extents;  ///< (rank)

  std::int64_t size() const { return extents.size(); }
  friend bool operator==(const box&, const box&) = default;
};

/// The box that covers a tensor of these extents.
box whole(const shape& extents);

bool contains(const shape& whole, const box& part);

/// The box with [begin, end) as its indices of one dimension.
box between(const box& x, int dimension, std::int64_t begin, std::int64_t end);

/// The overlap of two boxes of the same rank; its size is 0 if there is none.
box intersection(const box& a, const box& b);

/// Splits the row-major elements [begin, end) of `of` into boxes of the same tensor, in order: at
/// most 2 * rank - 1.
std::vector<box> boxes_of_range(const box& of, std::int64_t begin, std::int64_t end);

/// Copies the overlap of two boxes. `from` holds box `a` and `to` holds box `b`, both row-major,
/// with `element` bytes per element.
void copy_common(const box& a, const void* from, const box& b, void* to, std::size_t element);

/// "[0:512, 128:256]".
std::string to_string(const box& x);

}  // namespace troupe::runtime
