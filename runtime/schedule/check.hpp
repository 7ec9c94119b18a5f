// Checks that a plan can be executed, before anything runs.
//
//   PLAN-1  each (copy, chunk, micro-batch) has F once on its rank; in training each of its blocks
//           has B once, or I and W once each, and R once if it is recomputed; a pair is an F beside
//           a B or I
//   PLAN-2  an action comes after the actions of its own rank that it needs: R, I and B after F, I
//           after R and after I of the next block, W after I; the two of a pair are independent
//   PLAN-3  some order of all ranks satisfies all dependencies, so there is no deadlock; otherwise
//           the complaint names the cycle of waiting actions
//   PLAN-4  weight gradients are added in ascending order of micro-batches, so all single-copy
//           schedules have the same bits; another order gives a note, not a complaint
//   PLAN-5  in a plan with sends, each send has its receive, in the order of their link's queue
//   PLAN-6  no deadlock if each link holds at most as many unread micro-batches as it has credits;
//           a plan without sends is lowered first; in a run, an action begins only when its result
//           has a credit (check_handoffs)
//   PLAN-7  no rank holds more than its memory limit
//   PLAN-8  in a plan that reduces gradients, each chunk's are reduced once, after all its W

#pragma once

#include "runtime/schedule/credits.hpp"
#include "runtime/schedule/plan.hpp"
#include "runtime/schedule/simulate.hpp"

#include <string>
#include <vector>

namespace troupe::runtime {

struct check_settings {
  int credits = 0;                       ///< of each link, by direction and kind; 0: unlimited
  double memory_limit = 0;               ///< of each rank, in units of `held`; 0: unlimited
  std::vector<held_memory> held = {{}};  ///< per chunk, or one for all
};

struct check_report {
  /// One sentence each, "PLAN-3: ..."; empty: the plan is sound.
  std::vector<std::string> complaints;
  std::vector<std::string> notes;  ///< no errors, but changes of bits (PLAN-4)

  bool is_sound() const { return complaints.empty(); }
};

/// O(actions) for a sound plan. Lists some dozens of complaints and counts the rest.
check_report check_plan(const plan& x, const check_settings& by = {});

/// PLAN-6 for a run, with a sound plan without sends: one sentence for each cycle of waits.
std::vector<std::string> check_handoffs(const plan& x, const handoff_credits& credits);

/// The complaints of check_plan.
std::vector<std::string> validate(const plan& x);

/// True if each chunk adds W in ascending order of micro-batches and there is one copy: the bits
/// equal those of the reference trainer. Needs a sound plan.
bool accumulates_in_order(const plan& x);

}  // namespace troupe::runtime
