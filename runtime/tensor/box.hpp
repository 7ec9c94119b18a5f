// A box: a rectangular part of a tensor.
//
// Whatever cuts tensors (tensor parallelism, the distributed optimizer, a file) says by boxes what
// is where, so that any cut can be put together from any other.

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

  template <class Inspector>
  friend typename Inspector::result_type inspect(Inspector& f, box& x) {
    return f(x.first, x.extents);
  }
};

/// The whole of a tensor.
box whole(const shape& extents);

bool contains(const shape& whole, const box& part);

/// The common part; its size is 0 when there is none. Both have one rank.
box intersection(const box& a, const box& b);

/// The elements [begin, end) of `of`, counted row-major within it, as boxes of the same tensor, in
/// order: at most 2 * rank - 1 of them.
std::vector<box> boxes_of_range(const box& of, std::int64_t begin, std::int64_t end);

/// Copies the common part of two boxes from `from`, which holds `a` row-major, to `to`, which holds
/// `b` row-major. `element` bytes each.
void copy_common(const box& a, const void* from, const box& b, void* to, std::size_t element);

/// "[0:512, 128:256]".
std::string to_string(const box& x);

}  // namespace troupe::runtime
