// Merges reports of a step: of the stages of a replica, and of replicas and branches.
//
// The result is the same in any order and grouping, bit for bit. It grows with the parameters of a
// replica, and not with the number of replicas, except for losses: they are doubles whose sum has
// one order (STEP-10), so each logical replica has its own.

#pragma once

#include "actors/host/opened_job.hpp"
#include "messages/training/step.hpp"
#include "runtime/core/error.hpp"

#include <cstddef>
#include <set>
#include <utility>
#include <vector>

namespace troupe::actors {

inline constexpr const char* each_rank_once = "STEP-11: a replica reports each of its ranks once";

/// Breaks `promise` if they overlap.
void join(messages::index_ranges& to, const messages::index_ranges& other, const char* promise);

/// Adds x to the votes of the same step. Entries of alike ranks become one where they are equal, or
/// where each rank has a share. Breaks STEP-11 if a rank is not of the job, or is there already.
void merge(messages::vote& to, messages::vote x, const opened_job& job);
void merge(messages::applied& to, messages::applied x, const opened_job& job);

/// Breaks STEP-11 unless the entries have all ranks' dense layers, and with the experts of a rank
/// those of all that are alike.
void require_all_ranks(const std::vector<messages::voted_gradients>& all, const opened_job& job);
void require_all_ranks(const std::vector<messages::updated_state>& all, const opened_job& job);

/// Makes the report of a replica one that can be merged with others: its losses get the numbers of
/// the job. Breaks STEP-10 for a number that its replica does not have.
void tell_from_others(messages::vote& of_replica, const opened_job& job);
inline void tell_from_others(messages::applied&, const opened_job&) {}

/// The reports of a step from all that one actor hears from: replicas, branches or both.
template <class Report>
class merged_reports {
 public:
  /// Returns true when all of `members` have reported. Breaks `promise` if x is of another step, or
  /// if its sender has reported before.
  bool add(Report x, std::size_t members, const opened_job& job, const char* promise) {
    runtime::ensure((from_.empty() || all_.step == x.step) && from_.insert(x.reporter()).second,
                    promise);
    if (x.process < 0)
      tell_from_others(x, job);
    if (from_.size() == 1) {
      all_ = Report{.generation = x.generation, .step = x.step, .replica = x.replica};
    }
    merge(all_, std::move(x), job);
    return from_.size() == members;
  }
  bool has(const std::pair<int, int>& reporter) const { return from_.contains(reporter); }
  const Report& all() const { return all_; }
  void clear() {
    from_.clear();
    all_ = {};
  }

 private:
  Report all_ = {};
  std::set<std::pair<int, int>> from_;
};

}  // namespace troupe::actors
