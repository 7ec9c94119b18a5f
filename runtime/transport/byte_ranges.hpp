// A set of disjoint byte ranges of a tensor: those asked for, or those announced.

#pragma once

#include <cstdint>
#include <iterator>
#include <map>

namespace troupe::runtime {

/// Ranges [begin, end). An empty range overlaps no other.
class byte_ranges {
 public:
  /// Returns false, and changes nothing, when the range overlaps an earlier one.
  bool add(std::uint64_t begin, std::uint64_t end) {
    if (begin == end)
      return true;
    auto after = ends_.lower_bound(begin);
    if (after != ends_.end() && after->first < end)
      return false;
    auto before = after == ends_.begin() ? ends_.end() : std::prev(after);
    if (before != ends_.end() && before->second > begin)
      return false;
    bytes_ += end - begin;
    if (after != ends_.end() && after->first == end) {
      end = after->second;
      ends_.erase(after);
    }
    if (before != ends_.end() && before->second == begin)
      before->second = end;
    else
      ends_.emplace(begin, end);
    return true;
  }

  std::uint64_t bytes() const { return bytes_; }

 private:
  std::map<std::uint64_t, std::uint64_t> ends_;  ///< ranges that do not touch: begin to end
  std::uint64_t bytes_ = 0;
};

}  // namespace troupe::runtime
