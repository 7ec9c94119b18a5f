// Collects the reports of all members of a group for a step, such as votes.

#pragma once

#include "runtime/core/error.hpp"

#include <cstddef>
#include <map>

namespace troupe::actors {

/// Adds x to the reports of its step, by `member`: the number of the reporting member. Returns true
/// when all have arrived. Breaks `promise` if x is of another step, or if its member has reported
/// before.
template <class Report>
bool complete(std::map<int, Report>& reports,
              const Report& x,
              int Report::*member,
              std::size_t all,
              const char* promise) {
  runtime::ensure((reports.empty() || reports.begin()->second.step == x.step)
                      && reports.emplace(x.*member, x).second,
                  promise);
  return reports.size() == all;
}

}  // namespace troupe::actors
