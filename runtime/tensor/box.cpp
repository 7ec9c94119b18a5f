#include "runtime/tensor/box.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace troupe::runtime {
namespace {

/// Calls visit(index of its first element) for each row (last dimension) of a box.
template <class Visit>
void for_each_row(const box& x, const Visit& visit) {
  const int rank = x.extents.rank();
  std::int64_t rows = 1;
  for (int i = 0; i + 1 < rank; ++i)
    rows *= x.extents[i];
  for (std::int64_t r = 0; r < rows; ++r) {
    std::array<std::int64_t, 4> index = {};
    std::int64_t rest = r;
    for (int i = rank - 2; i >= 0; --i) {
      index[std::size_t(i)] = x.first[i] + rest % x.extents[i];
      rest /= x.extents[i];
    }
    if (rank > 0)
      index[std::size_t(rank - 1)] = x.first[rank - 1];
    visit(index);
  }
}

/// Row-major offset of an index within a box.
std::int64_t place(const box& in, const std::array<std::int64_t, 4>& index) {
  std::int64_t at = 0;
  for (int i = 0; i < in.extents.rank(); ++i)
    at = at * in.extents[i] + index[std::size_t(i)] - in.first[i];
  return at;
}

}  // namespace

box whole(const shape& extents) {
  box out{{}, extents};
  for (int i = 0; i < extents.rank(); ++i)
    out.first.push_back(0);
  return out;
}

bool contains(const shape& whole, const box& part) {
  if (part.first.rank() != whole.rank() || part.extents.rank() != whole.rank())
    return false;
  for (int i = 0; i < whole.rank(); ++i)
    if (part.first[i] < 0 || part.extents[i] < 0 || part.first[i] > whole[i] - part.extents[i])
      return false;
  return true;
}

box between(const box& x, int dimension, std::int64_t begin, std::int64_t end) {
  box out;
  for (int i = 0; i < x.extents.rank(); ++i) {
    out.first.push_back(i == dimension ? begin : x.first[i]);
    out.extents.push_back(i == dimension ? end - begin : x.extents[i]);
  }
  return out;
}

box intersection(const box& a, const box& b) {
  ensure(a.extents.rank() == b.extents.rank(), "BOX-1: boxes of one tensor have one rank");
  box out;
  for (int i = 0; i < a.extents.rank(); ++i) {
    const auto first = std::max(a.first[i], b.first[i]);
    const auto end = std::min(a.first[i] + a.extents[i], b.first[i] + b.extents[i]);
    out.first.push_back(first);
    out.extents.push_back(std::max<std::int64_t>(0, end - first));
  }
  return out;
}

// Splits the outermost dimension into a partial first row, whole rows and a partial last row. The
// partial rows recurse with one dimension less.
std::vector<box> boxes_of_range(const box& of, std::int64_t begin, std::int64_t end) {
  ensure(begin >= 0 && begin <= end && end <= of.size(), "BOX-2: a range lies inside its box");
  if (begin == end)
    return {};
  if (begin == 0 && end == of.size())
    return {of};
  const int rank = of.extents.rank();
  const auto row = of.size() / of.extents[0];
  const auto slab = [&](std::int64_t first, std::int64_t count) {
    box out{{of.first[0] + first}, {count}};
    for (int i = 1; i < rank; ++i) {
      out.first.push_back(of.first[i]);
      out.extents.push_back(of.extents[i]);
    }
    return out;
  };
  std::vector<box> out;
  const auto cut = [&](std::int64_t r, std::int64_t from, std::int64_t to) {
    box inner;
    for (int i = 1; i < rank; ++i) {
      inner.first.push_back(of.first[i]);
      inner.extents.push_back(of.extents[i]);
    }
    for (const auto& part : boxes_of_range(inner, from, to)) {
      box with{{of.first[0] + r}, {1}};
      for (int i = 0; i + 1 < rank; ++i) {
        with.first.push_back(part.first[i]);
        with.extents.push_back(part.extents[i]);
      }
      out.push_back(with);
    }
  };
  auto first = begin / row, last = end / row;
  if (first == last) {
    cut(first, begin % row, end % row);
    return out;
  }
  if (begin % row != 0) {
    cut(first, begin % row, row);
    ++first;
  }
  if (last > first)
    out.push_back(slab(first, last - first));
  if (end % row != 0)
    cut(last, 0, end % row);
  return out;
}

void copy_common(const box& a, const void* from, const box& b, void* to, std::size_t element) {
  const auto both = intersection(a, b);
  if (both.size() == 0)
    return;
  const int rank = both.extents.rank();
  const auto run = std::size_t(rank == 0 ? 1 : both.extents[rank - 1]) * element;
  for_each_row(both, [&](const std::array<std::int64_t, 4>& index) {
    std::memcpy(static_cast<std::byte*>(to) + std::size_t(place(b, index)) * element,
                static_cast<const std::byte*>(from) + std::size_t(place(a, index)) * element,
                run);
  });
}

std::string to_string(const box& x) {
  std::string out = "[";
  for (int i = 0; i < x.first.rank(); ++i)
    out += (i ? ", " : "") + std::to_string(x.first[i]) + ":"
           + std::to_string(x.first[i] + x.extents[i]);
  return out + "]";
}

}  // namespace troupe::runtime
