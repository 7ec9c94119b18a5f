// A death that is planted to show that the run survives it: whose, when, and how.
//
// Text: WHO@STEP:MOMENT[:HOW], e.g. "lane:0.1@3:reduce". It strikes one incarnation once, not every
// time that the step runs again, also where its process dies of it and another one comes. Over
// several hosts it is once for the folder of each node that waits for jobs: what has struck is
// noted there, and where the place moves to another host it strikes there once more.
//
// Wrong bits are promised to be found where two workers hold the same: a reduced gradient (STEP-2)
// and an updated state (STEP-5, STEP-6) of whole replicas, a state on its way to a keeper
// (KEEPER-2), and, where all passes are computed again, what a pass hands on and adds (VERIFY-2).
// Else a pass that computes something else is seen
// by no digest: what comes of it is summed, and the sum is alike everywhere; with a distributed
// optimizer each has its own share of gradients and state, which nobody can compare. Such deaths
// are refused (fault_rules.hpp), and so is what never comes in that job.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// What a job does when, as far as somebody may die of it.
enum class moment_of_step : std::uint8_t {
  restore,          ///< a worker is built, or filled with a state
  forward,          ///< F
  input_gradient,   ///< I
  weight_gradient,  ///< W
  redeem,           ///< an activation, a gradient or, by a keeper, a state comes by the transport
  reduce,           ///< gradients are summed
  vote,             ///< a vote is cast, merged or counted
  decided,          ///< the decision has come, nobody has updated
  updated,          ///< the state stands, nobody has been told
  acknowledged,     ///< it has been told
  snapshot,         ///< the state is copied for a checkpoint
  save,             ///< a checkpoint is written
  validate,         ///< a forward pass of a validation
};

std::span<const std::string_view> moment_names();  ///< in the order of moment_of_step
std::string_view to_string(moment_of_step x);

enum class death_kind : std::uint8_t {
  by_throwing,
  by_hanging,           ///< it does nothing more, and hears nothing
  wrong_bits,           ///< one bit of what it computed or got, and others have alike, is another
  wrong_moment,         ///< one bit of a first moment that it has updated
  wrong_second_moment,  ///< the same of a second moment
  by_delaying,  ///< nobody dies: from that step on it takes longer, each time it comes there
  // Those that end the process that it is in, as a real fault would:
  by_exit,   ///< somebody calls exit
  by_abort,  ///< SIGABRT
  by_segv,   ///< SIGSEGV
  by_kill,   ///< SIGKILL
};

bool ends_process(death_kind x);
/// Nobody dies of it: a bit is another.
bool flips_bit(death_kind x);

/// This process dies so, at once: nothing is flushed, nobody is told. It leaves no core dump.
[[noreturn]] void end_this_process(death_kind how);

struct planted_death {
  std::string text;
  std::string who;  ///< "stage:0.1", "lane:0.1.1", "monitor"; tensor rank 0 is left out
  std::uint64_t step = 0;
  moment_of_step at = {};
  death_kind how = {};

  /// "lane" of "lane:0.1"
  std::string_view kind() const { return std::string_view(who).substr(0, who.find(':')); }
};

/// Throws input_error that says what is wrong with the text and lists what there is. Whether the
/// run has such an actor, `validate` says (job.hpp).
planted_death planted_death_from(std::string_view text);

/// "stage:1.2" for "stage:1.2.0": tensor rank 0 goes without saying.
std::string without_tensor_zero(std::string_view who);

}  // namespace troupe::runtime
