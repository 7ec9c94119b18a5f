// Tells whether a condition holds for all of many members, such as "has answered".

#pragma once

#include <cstddef>

namespace troupe::actors {

/// Begins with the member that failed last: while members begin to satisfy the condition one after
/// the other, n calls look at about 2 n members, not at n^2.
class all_by_now {
 public:
  /// `holds(i)`: whether member i of `n` satisfies the condition.
  template <class Holds>
  bool operator()(std::size_t n, Holds holds) const {
    if (failed_ >= n)
      failed_ = 0;
    for (std::size_t looked = 0; looked < n; ++looked) {
      if (!holds(failed_))
        return false;
      failed_ = (failed_ + 1) % n;
    }
    return true;
  }

 private:
  mutable std::size_t failed_ = 0;
};

}  // namespace troupe::actors
