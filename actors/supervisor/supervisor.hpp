// The supervisor: the root of a job.
//
// It starts processes, spawns actors and drives the steps. It decides a step when all have voted,
// announces `committed` when all have applied it, and has checkpoints written. It ends the job: in
// order when it is done, or with the first cause when a member died and may not be replaced.
//
//   supervised_run  what all parts share: the job, the position, the membership, the messages
//   roster          spawns, watches and replaces actors; knows the processes
//   save_driver     checkpoints, kept states and local disks
//   bit_checker     wrong bits, non-finite steps, stragglers
//   commander       commands of viewers
//   step_driver     steps, evaluations, and how the run ends
//   recoverer       deaths; carries out the orders of the membership
//
// The machines that decide have no actors: membership, save_schedule, restart_limits, stragglers,
// second_run, stored_steps, pass_ballots, cross_check.
//
// The run's state is in its process's ledger, from which a successor continues.

#pragma once

#include "actors/supervisor/bit_checker.hpp"
#include "actors/supervisor/commander.hpp"
#include "actors/supervisor/recoverer.hpp"
#include "actors/supervisor/roster.hpp"
#include "actors/supervisor/save_driver.hpp"
#include "actors/supervisor/step_driver.hpp"
#include "actors/supervisor/supervised_run.hpp"

#include <memory>
#include <optional>
#include <utility>

namespace troupe::actors {

/// The parts of a supervisor. `run` is first: the parts read it when they are constructed.
struct supervisor_parts {
  template <class... Args>
  explicit supervisor_parts(Args&&... of_run) : run(std::forward<Args>(of_run)...) {}

  supervised_run run;
  roster actors{*this};
  save_driver saves{*this};
  bit_checker checks{*this};
  commander commands{*this};
  step_driver steps{*this};
  recoverer recovery{*this};
};

class supervisor_state {
 public:
  static constexpr const char* name = "supervisor";

  explicit supervisor_state(messages::supervisor_actor::pointer self) : self_(self) {}
  ~supervisor_state();

  void start(messages::node_actor node,
             messages::job_description told,
             std::shared_ptr<const supervisor_resources> context,
             messages::front_actor front,
             const succession& after);
  supervisor_parts& parts() { return *parts_; }
  const std::shared_ptr<runtime::lane_board::place>& place() const { return place_; }

 private:
  void begin(const succession& after);

  messages::supervisor_actor::pointer self_;
  std::optional<supervisor_parts> parts_;
  std::shared_ptr<runtime::lane_board::place> place_;  ///< last member: it reads the others
};

messages::supervisor_actor::behavior_type supervisor(
    messages::supervisor_actor::stateful_pointer<supervisor_state> self,
    messages::node_actor node,
    messages::job_description told,
    std::shared_ptr<const supervisor_resources> context,
    messages::front_actor front,
    const succession& after);

}  // namespace troupe::actors
