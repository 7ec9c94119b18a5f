#include "runtime/parameters/spec.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

shape with(const shape& x, int dimension, std::int64_t extent) {
  shape out;
  for (int i = 0; i < x.rank(); ++i)
    out.push_back(i == dimension ? extent : x[i]);
  return out;
}

/// The dimension that is cut.
int dimension(const parameter_spec& x) {
  return x.along == cut::columns ? 1 : 0;
}

}  // namespace

shape whole_extents(const parameter_spec& x) {
  return x.valid_rows < 0 ? x.extents : with(x.extents, 0, x.valid_rows);
}

shape local_extents(const parameter_spec& x, tensor_seat seat) {
  if (x.along == cut::none)
    return x.extents;
  const int at = dimension(x);
  ensure(x.extents[at] % (std::int64_t(seat.size) * x.sections) == 0,
         "PARAMETER-1: the tensor axis divides what it cuts");
  return with(x.extents, at, x.extents[at] / seat.size);
}

std::vector<box> local_boxes(const parameter_spec& x, tensor_seat seat) {
  const auto all = whole_extents(x);
  if (x.along == cut::none || seat.size == 1)
    return {whole(all)};
  const int at = dimension(x);
  const auto section = x.extents[at] / x.sections, each = section / seat.size;
  std::vector<box> out;
  for (int s = 0; s < x.sections; ++s) {
    auto part = whole(all);
    const auto first = s * section + seat.rank * each;
    const auto end = std::min(first + each, all[at]);
    if (end <= first)
      continue;
    part.first = with(part.first, at, first);
    part.extents = with(part.extents, at, end - first);
    out.push_back(part);
  }
  return out;
}

}  // namespace troupe::runtime
