// The run that a supervisor works on: its job, its position, its membership, and the messages sent.
//
// All parts of the supervisor share it.

#pragma once

#include "actors/host/supervisor_resources.hpp"
#include "actors/supervisor/membership.hpp"
#include "messages/protocol/actors.hpp"
#include "runtime/device/lane_board.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace troupe::actors {

/// The predecessor of a supervisor.
struct succession {
  std::uint32_t epoch = 0;  ///< 0: the first supervisor of the run
  std::string why = {};     ///< why its predecessor died
  /// All processes died; the run was started again (actors/job/cold_start.hpp).
  bool is_cold = false;
  /// When the death was noticed, in nanoseconds of the actors' clock; 0: now.
  std::uint64_t noticed_ns = 0;
};

constexpr int home_process = -1;  ///< the process of the supervisor

/// Home of an actor, and the process it serves, for the handling of its death.
struct residence {
  std::string name;
  member_role role = {};
  int lives_in = home_process;  ///< process
  int serves = 0;               ///< process that it serves
};

struct supervised_run {
  supervised_run(messages::supervisor_actor::pointer self,
                 messages::node_actor node,
                 messages::job_description told,
                 std::shared_ptr<const supervisor_resources> context,
                 messages::front_actor front,
                 const succession& after);
  supervised_run(const supervised_run&) = delete;

  /// Finds the position, and writes to the ledger. A hanging disk blocks this, so the failure
  /// detector already watches (HANG-6).
  void begin(const succession& after);

  runtime::generation_id generation() const { return members.generation(); }
  /// LEDGER-3.
  runtime::step_ledger::pen pen() const { return context->ledger->by(epoch_of(generation())); }
  std::uint64_t clock_ns() const;  ///< time of the actor system's clock
  bool is_of_this_epoch(runtime::generation_id x) const {
    return epoch_of(x) == epoch_of(generation());
  }

  int processes() const { return job->job.layout.processes; }  ///< that host ranks
  /// A process besides this one that hosts ranks, as named in messages.
  bool is_process(int x) const { return processes() > 1 && x >= 0 && x < processes(); }
  /// The process of the loader and the ranks of place `x`.
  int host_of(int x) const { return processes() == 1 ? home_process : x; }
  /// States of ranks are kept in other processes.
  bool keeps() const { return processes() > 1 && job->job.recovery.on; }
  int process_of(int replica, int stage) const;
  std::string name_of_stage(int replica, int stage) const;  ///< "stage:1.0"

  /// A step that was committed before is running again.
  bool replays() const { return at.iteration < context->ledger->newest(); }

  template <class Target, class Message>
  void send(const Target& to, Message x) const {
    context->messages->send(self, to, std::move(x));
  }
  template <class Target, class Message>
  void send_at_once(const Target& to, Message x) const {
    context->messages->send_at_once(self, to, std::move(x));
  }
  template <class Message>
  void send_to_self_later(std::chrono::nanoseconds after, Message x) const {
    context->messages->send_later(self, messages::supervisor_actor(self), after, std::move(x));
  }
  /// The answer may take any time.
  template <class Target, class Message>
  auto request(const Target& to, Message x) const {
    return context->messages->request(self, to, caf::infinite, std::move(x));
  }
  /// Shows an answer or a death as a message on the board.
  std::unique_ptr<runtime::lane_board::place::at_message> take_turn(const char* what) const;

  // Records for viewers (showing.cpp).

  /// `state`: "starting", "training", ...; has static lifetime.
  void show(const char* state);
  void show_member(const residence& where, const char* state, const std::string& why = {}) const;
  void show_process(int process, const char* state, const std::string& why = {}) const;
  /// Shows all stages, or those of one process.
  void show_stages(const char* state,
                   std::optional<int> process = {},
                   const std::string& why = {}) const;

  messages::supervisor_actor::pointer self;
  messages::node_actor node;
  messages::front_actor front;
  messages::job_description told;
  std::shared_ptr<const supervisor_resources> context;
  std::shared_ptr<const opened_job> job;
  bool is_cold;                   ///< continues a dead run's ledger; no process of that run lives
  runtime::training_position at;  ///< newest committed step
  std::optional<runtime::training_position> before = {};  ///< the one before, in this generation
  membership members;
  const char* shown = nullptr;                  ///< newest state in the records; null: none yet
  runtime::lane_board::place* place = nullptr;  ///< null: reports no progress
};

class bit_checker;
class commander;
class recoverer;
class roster;
class save_driver;
class step_driver;
struct supervisor_parts;

/// Base of the parts: the run, and the other parts.
class supervisor_part {
 protected:
  explicit supervisor_part(supervisor_parts& all);
  supervisor_part(const supervisor_part&) = delete;

  supervised_run& run_;
  roster& roster_;
  save_driver& saves_;
  bit_checker& checks_;
  commander& commands_;
  step_driver& steps_;
  recoverer& recovery_;
};

}  // namespace troupe::actors
