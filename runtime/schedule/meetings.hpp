// Actions that several ranks begin together, because they exchange values inside them.
//
//   PLAN-9  the ranks of a meeting reach it in an order that ends: none waits in one meeting for a
//           rank that waits for it
//
// Replicas that share experts meet in each pass. All carry out one plan, so those of a meeting are
// at the same action: joined into one, their actions have the dependencies of one replica (PLAN-3,
// PLAN-6). Copies of the model with a loss over replicas meet in forward passes, at different
// places of their plan.

#pragma once

#include "runtime/schedule/credits.hpp"
#include "runtime/schedule/plan.hpp"

#include <functional>
#include <optional>
#include <string>

namespace troupe::runtime {

/// The meeting of an action, a number below that of the plan's actions; nothing: it has none.
using meeting_of = std::function<std::optional<std::size_t>(const action&)>;

/// The forward passes of a micro-batch through a chunk, in all copies of the model.
meeting_of forwards_of_copies(const plan& x);

/// The first rank that waits forever, as a sentence; empty: none. Each action of a meeting is on
/// another rank. Needs a sound plan without sends.
std::string missed_meeting(const plan& x,
                           const handoff_credits& credits,
                           const meeting_of& meeting);

}  // namespace troupe::runtime
