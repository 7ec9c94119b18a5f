// A planted death: a fault that shows that a run survives it. Names an actor, a step, a moment and
// a kind.
//
// Text: ACTOR@STEP:MOMENT[:HOW], e.g. "lane:0.1@3:reduce". A death strikes one incarnation once,
// even if the step runs again or its process dies and restarts. Over several hosts it strikes once
// for the folder of each standing node. That folder records past strikes; a place that moves to
// another host is struck once more.
//
// Wrong bits are always found where two workers hold the same data:
// - a reduced gradient (STEP-2) or an updated state (STEP-5, STEP-6) of whole replicas;
// - a state that is sent to a keeper (KEEPER-2);
// - the results of a pass, if all passes are computed again (VERIFY-2).
// Elsewhere no digest shows a wrong pass: its sum is the same on all replicas. A distributed
// optimizer gives each replica its own share of gradients and state, and there is nothing to
// compare with. fault_rules.hpp refuses such deaths, and deaths that would never occur in the job.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// The moments of a step at which an actor may die.
enum class moment_of_step : std::uint8_t {
  restore,          ///< a worker is built, or loads a state
  forward,          ///< F
  input_gradient,   ///< I
  weight_gradient,  ///< W
  redeem,        ///< an activation or gradient arrives through the transport; in a keeper: a state
  reduce,        ///< gradients are summed
  vote,          ///< a vote is cast, merged or counted
  decided,       ///< the decision has arrived; no update has started
  updated,       ///< the update is done; no message about it has been sent
  acknowledged,  ///< the message about the update has been sent
  snapshot,      ///< the state is copied for a checkpoint
  save,          ///< a checkpoint is written
  validate,      ///< a forward pass of a validation
};

std::span<const std::string_view> moment_names();  ///< in the order of moment_of_step
std::string_view to_string(moment_of_step x);

enum class death_kind : std::uint8_t {
  by_throwing,
  by_hanging,           ///< it stops working and reads no more messages
  wrong_bits,           ///< flips a bit of a result or an input of which others have a copy
  wrong_moment,         ///< flips a bit of an updated first moment
  wrong_second_moment,  ///< flips a bit of an updated second moment
  by_delaying,          ///< from that step on, this moment takes longer; the actor does not die
  // The following end the process of the actor, as a real fault would:
  by_exit,   ///< calls _exit
  by_abort,  ///< SIGABRT
  by_segv,   ///< SIGSEGV
  by_kill,   ///< SIGKILL
};

bool ends_process(death_kind x);
/// True if the kind flips a bit; the actor does not die.
bool flips_bit(death_kind x);

/// Ends this process at once: flushes nothing and sends no message. Leaves no core dump.
[[noreturn]] void end_this_process(death_kind how);

struct planted_death {
  std::string text;
  std::string who;  ///< "stage:0.1", "lane:0.1.1", "monitor"; without tensor rank 0
  std::uint64_t step = 0;
  moment_of_step at = {};
  death_kind how = {};

  /// "lane" of "lane:0.1"
  std::string_view kind() const { return std::string_view(who).substr(0, who.find(':')); }
};

/// Throws input_error that names the mistake and lists the choices. `validate` (job.hpp) checks
/// that the run has such an actor.
planted_death planted_death_from(std::string_view text);

/// "stage:1.2" for "stage:1.2.0": tensor rank 0 is the default.
std::string without_tensor_zero(std::string_view who);

}  // namespace troupe::runtime
