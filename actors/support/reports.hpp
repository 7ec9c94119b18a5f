// Collects the reports of all members of a group for a step, such as votes.

#pragma once

#include "runtime/core/error.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace troupe::actors {

/// Adds x to the reports of its step. Returns true when all have arrived; then they are ordered by
/// `member`, the number of the reporting member. Breaks `promise` if x is of another step, or if
/// its member has reported before.
template <class Report>
bool complete(std::vector<Report>& reports,
              const Report& x,
              int Report::*member,
              std::size_t all,
              const char* promise) {
  runtime::ensure(std::all_of(reports.begin(),
                              reports.end(),
                              [&](const Report& before) {
                                return before.step == x.step && before.*member != x.*member;
                              }),
                  promise);
  reports.push_back(x);
  if (reports.size() < all)
    return false;
  std::sort(reports.begin(), reports.end(), [member](const Report& a, const Report& b) {
    return a.*member < b.*member;
  });
  return true;
}

}  // namespace troupe::actors
