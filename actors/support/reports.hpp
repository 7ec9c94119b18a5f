// Collects the reports of all members of a group for a step, such as votes.

#pragma once

#include "runtime/core/error.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace troupe::actors {

/// Adds x to the reports of its step. Returns true when all have arrived; then they are ordered by
/// `member`, the number of the reporting member. Breaks `promise` if x is of another step, and at
/// the last report if a member has reported twice.
template <class Report>
bool complete(std::vector<Report>& reports,
              const Report& x,
              int Report::*member,
              std::size_t all,
              const char* promise) {
  runtime::ensure(reports.empty() || reports.front().step == x.step, promise);
  reports.push_back(x);
  if (reports.size() < all)
    return false;
  std::ranges::sort(reports, {}, member);
  runtime::ensure(std::ranges::adjacent_find(reports, {}, member) == reports.end(), promise);
  return true;
}

}  // namespace troupe::actors
