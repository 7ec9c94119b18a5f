// Whether a plan can be carried out, before anything runs.
//
//   PLAN-1  every (copy, chunk, micro-batch) has F once, and in training each of its blocks B once
//           or I and W once each, on its rank; R once where it is rebuilt, else not; a pair is an F
//           beside a B or I
//   PLAN-2  what an action needs of its own rank stands before it: R, I and B come after F, I after
//           R and after I of the next block, W after I; a pair's actions do not need each other
//   PLAN-3  some order of all ranks satisfies every dependency: nobody waits for ever; else the
//           cycle of actions that wait for each other is named
//   PLAN-4  weight gradients are added in ascending order of micro-batches, so that every
//           single-copy schedule has the same bits; another order is told, not refused
//   PLAN-5  where a plan has sends, each meets its receive, in the order of their link's queue
//   PLAN-6  so many micro-batches as a link has credits may be on their way or unread, and nobody
//           waits for ever; a plan without sends is looked at as it is lowered. So in a run, where
//           an action begins once its result has a credit (check_handoffs)
//   PLAN-7  no rank holds more than its memory limit
//   PLAN-8  where a plan reduces gradients, each chunk's are reduced once, after all its W

#pragma once

#include "runtime/schedule/credits.hpp"
#include "runtime/schedule/plan.hpp"
#include "runtime/schedule/simulate.hpp"

#include <string>
#include <vector>

namespace troupe::runtime {

struct check_settings {
  int credits = 0;                       ///< of each link, direction and kind; 0: no bound
  double memory_limit = 0;               ///< of each rank, in units of `held`; 0: none
  std::vector<held_memory> held = {{}};  ///< of each chunk, or one for all
};

struct check_report {
  std::vector<std::string> complaints;  ///< a sentence each, "PLAN-3: ..."; empty: it can be done
  std::vector<std::string> notes;       ///< what is no fault, but changes bits (PLAN-4)

  bool is_sound() const { return complaints.empty(); }
};

/// O(actions) but for what is wrong; at most some dozens of complaints, the rest counted.
check_report check_plan(const plan& x, const check_settings& by = {});

/// PLAN-6 of a run, of a plan without complaints and without sends: a sentence for each circle.
std::vector<std::string> check_handoffs(const plan& x, const handoff_credits& credits);

/// Its complaints.
std::vector<std::string> validate(const plan& x);

/// The order in which W of a chunk adds micro-batches is ascending everywhere, and there is one
/// copy: the bits are those of the reference trainer. Of a sound plan.
bool accumulates_in_order(const plan& x);

}  // namespace troupe::runtime
