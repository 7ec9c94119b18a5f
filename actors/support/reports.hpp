// Votes and what else each member of a group reports of a step, until all have.

#pragma once

#include "runtime/core/error.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace troupe::actors {

/// Adds x to the reports of its step. True when all have come; they are then ordered by `member`,
/// the number of who reports. Breaks `promise` when x is of another step than those before, or of a
/// member that has reported already.
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
