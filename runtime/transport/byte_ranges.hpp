// Which bytes of a tensor were asked for, or have been announced.

#pragma once

#include <cstdint>
#include <iterator>
#include <map>

namespace troupe::runtime {

/// Bytes [begin, end), no byte twice. One that is empty is in no other's way.
class byte_ranges {
 public:
  /// False, and nothing changes: some of it is there already.
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
  std::map<std::uint64_t, std::uint64_t> ends_;  ///< of ranges that do not touch, by their begin
  std::uint64_t bytes_ = 0;
};

}  // namespace troupe::runtime
