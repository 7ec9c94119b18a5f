// The supervisor: the root of a job.
//
// It starts processes, spawns actors and drives the steps. It decides a step when all have voted,
// announces `committed` when all have applied it, and has checkpoints written. It ends the job: in
// order when it is done, or with the first cause when a member died and may not be replaced. A
// state machine (membership.hpp) decides what follows a death; recovery.cpp and services.cpp carry
// out its orders.
//
// The run's state is in its process's ledger, from which a successor continues.

#pragma once

#include "actors/host/supervisor_resources.hpp"
#include "actors/supervisor/cross_check.hpp"
#include "actors/supervisor/membership.hpp"
#include "actors/supervisor/save_schedule.hpp"
#include "actors/supervisor/second_run.hpp"
#include "actors/supervisor/stored_steps.hpp"
#include "actors/supervisor/stragglers.hpp"
#include "messages/protocol/actors.hpp"
#include "runtime/trainer/decision.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

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
  void receive(const messages::ready& x);
  void receive(const messages::vote& x);
  void receive(const messages::applied& x);
  void receive(const messages::check_pass& x);  // checking.cpp
  void receive(const messages::saved& x);
  void receive(const messages::save_failed& x);
  void receive(const messages::abandoned& x);
  void receive(const messages::kept& x);
  void receive(const messages::process_started& x);
  void receive(const messages::process_died& x);
  void receive(const messages::process_may_move& x);
  void receive(const messages::save_again& x);
  void receive(const messages::commands_wait& x);   // control.cpp
  void receive(const messages::taken_for_dead& x);  // waiting.cpp
  void drain(const messages::drain& x);
  const std::shared_ptr<runtime::lane_board::place>& place() const { return place_; }
  const std::shared_ptr<const message_path>& path() const { return context_->messages; }

 private:
  void begin(const succession& after);

  // Membership (recovery.cpp).

  void carry_out(membership::orders orders);
  void carry_out(const order_start& x);
  void carry_out(const order_end& x);
  void carry_out(const order_look& x);
  void end_look();
  void carry_out(const order_form& x);
  void carry_out(const order_replace& x);
  void carry_out(const order_forgo& x);
  void carry_out(const order_exchange& x);
  void carry_out(const order_stop& x);
  void lose(const caf::down_msg& x);
  bool lose_known(const caf::down_msg& x);
  void lose_node(int process, const caf::error& reason);
  /// Time for which a report of a death waits for its cause from the process's host, when the run
  /// ends by it.
  std::chrono::milliseconds patience_with_causes() const;
  void lose_process(int process,
                    std::uint32_t incarnation,
                    const std::string& why,
                    process_loss how = process_loss::died);
  /// The first process reports that it cannot reach the second; both may live.
  void lose_connection(const messages::taken_for_dead& x,
                       int from,
                       const messages::process_name& to,
                       const char* kind);
  /// Also forgets the actors that lived there.
  void forget_process(int process);
  /// Moves a process to a free host; returns whether one moved.
  bool move_process();
  void note_loss(const member_death& death);
  void end_services_before();
  void settle_keepers();
  void tell_keepers(const std::vector<int>& before) const;
  /// The keeper in that process, for its memory and its host's disk; null: being spawned.
  messages::keeper_actor keeper_in(int process) const;
  /// The keeper with the initial state of a process's ranks; null: the ranks have it themselves, or
  /// it comes from elsewhere.
  messages::keeper_actor holder_for(int process) const;
  /// Position of a step that the run may go back to. The ledger may no longer know steps that run
  /// again.
  std::optional<runtime::training_position> position(std::uint64_t step) const;
  void forget_step();
  void abandon_save();
  void tell_restart();
  /// Ranks broke a promise: values that must be alike differ. Their step runs again.
  void suspect(const std::string& why);
  /// Runs the voted step again, without a broken promise.
  void run_again(const std::string& why);
  void refuse(const caf::error& reason);
  void begin_when_ready();
  /// Ends the run, as planned or after a fatal error.
  void end(int exit_code, const std::string& why);
  /// Like `end`, after the decided step is committed and the running save is finished.
  void give_up(const std::string& why);
  void end_processes();

  // Spawning (services.cpp).

  void spawn_services();
  bool is_served() const;
  void spawn_ranks_if_served();
  void tell_of_services();
  void tell_of_services(const messages::replica_actor& to,
                        const std::vector<messages::hosting_process>& known) const;
  void spawn_monitor();
  void spawn_loader(int process);
  void spawn_keeper(int process);
  void spawn_checkpointer();
  void spawn_shard_writer(int process);
  void tell_of_shard_writer(int process);
  bool can_save() const;  ///< all writers are there
  void spawn_viewers();
  void spawn_replicas();
  std::vector<messages::hosting_process> hosting_processes() const;
  static constexpr int home = -1;  ///< the process of this actor

  /// Home of an actor, and the process it serves, for the handling of its death.
  struct residence {
    std::string name;
    member_role role = {};
    int lives_in = home;  ///< process
    int serves = 0;       ///< process that it serves
  };
  /// Sends a request to the node of that process; `keep` takes the answer, and the new actor is
  /// watched.
  template <class Answer, class Request, class Keep>
  void spawn(Request what, residence where, Keep keep);
  template <class Handle>
  void watch(residence where, const Handle& actor);
  /// With several processes, a service's name has the number of its process.
  std::string name_of_service(const char* what, int process) const;
  const messages::node_actor& node_in(int process) const {
    return process == home ? node_ : processes_[std::size_t(process)].node;
  }
  /// The process of the loader and the ranks of place `x`.
  int host_of(int x) const { return processes_.size() == 1 ? home : x; }
  /// States of ranks are kept in other processes.
  bool keeps() const { return processes_.size() > 1 && job_->job.recovery.on; }
  /// Kept states are written to local disks after this step.
  bool is_stored(std::uint64_t step) const {
    const auto interval = job_->job.checkpoints.local_interval;
    return keeps() && interval > 0 && step > 0 && step % interval == 0;
  }
  /// Each process writes its ranks' parts of a checkpoint.
  bool writes_apart() const { return processes_.size() > 1 && !job_->job.checkpoints.save.empty(); }
  bool is_kept(std::uint64_t step) const;
  // storing.cpp:
  void store_if_due();
  std::uint64_t stored_by_all() const;
  void leave_out(int process, std::uint64_t step);
  /// A process besides this one that hosts ranks, as named in messages.
  bool is_process(int x) const {
    return processes_.size() > 1 && x >= 0 && x < int(processes_.size());
  }

  // Waiting (waiting.cpp), and a run that stands still (stillness.cpp).

  void hear_of_stillness(const messages::taken_for_dead& x);
  /// All processes, this one included, have reported it within the suspicion.
  bool is_still(std::uint64_t now_ns) const;
  void end_stillness();
  /// Processes that lost an order, or sent an answer that was lost.
  std::vector<int> unanswering() const;
  void take_place();
  std::vector<std::string> keepers_waited_for() const;
  /// Shows an answer or a death as a message on the board.
  std::unique_ptr<runtime::lane_board::place::at_message> take_turn(const char* what) const;
  runtime::lane_board::place::waiting waits_for() const;

  // Continuation after a step, a validation or a save (supervisor.cpp).

  void proceed();
  /// A step that was committed before is running again.
  bool replays() const { return at_.iteration < context_->ledger->newest(); }
  bool validation_is_due() const;
  bool test_is_due() const;
  bool is_over() const;
  bool is_at_end() const;  ///< of the training
  void begin_step();
  /// Another step is expected after this one.
  bool is_followed(std::uint64_t step) const;
  bool is_timed(std::uint64_t step) const;
  void begin_validation();
  void begin_test();
  void begin_evaluation(std::uint64_t consumed, bool test);
  void begin_evaluation_round();
  int snapshot_parts() const;
  void begin_save();
  std::string identity_of_save() const;
  void finish();
  void shut_down();
  void say_when(const std::string& why) const;
  void look_at_clock();

  // Wrong bits and stragglers (checking.cpp).

  /// True if the replicas agree in what must be equal. Otherwise the step runs again.
  bool passes_agree();
  bool votes_agree();
  bool states_agree();
  bool agree(checked_bits what,
             const std::vector<ballot>& ballots,
             const std::string& promise,
             const std::string& parameters);
  std::string describe(const wrong_bits& x, checked_bits what) const;
  void tell(const wrong_bits& x, const std::string& why);
  void send_back(const std::vector<wrong_bits>& found, const std::string& why);
  /// Exchanges as many doubted processes as possible at once; false: none.
  bool exchange_doubted();
  /// Exchanges processes that had to wait, when the correct result of their step is kept.
  bool exchange_when_kept();
  int process_of(int replica, int stage) const;
  std::string name_of_stage(int replica, int stage) const;  ///< "stage:1.0"
  void look_for_stragglers();
  /// "stage:1.0"; with several processes also its process and host.
  std::string name_and_place_of(int replica, int stage) const;

  // Non-finite steps (nonfinite.cpp).

  /// The voted step is not finite, and a second run must tell why; it has been started.
  bool is_to_run_again(const runtime::step_verdict& verdict, const std::string& where);
  void tell_of(const second_runs::finding& x);
  std::string place_of(const second_runs::finding& x) const;
  /// Doubts the process of that replica, if a single process has all its stages.
  void doubt_if_alone(int replica, const std::string& why);

  // Commands of viewers (control.cpp).

  struct command_reader;
  void wait_for_commands();
  void take_up_commands();
  void take_commands();
  void pause();
  /// True if the run is paused and no validation, save or recovery is running.
  bool is_at_rest() const {
    return control_.paused && begun_ && !now_ && !saves_.is_writing() && !abandoning_;
  }
  void require_validation() const;  ///< throws input_error
  command_answer carry_out(const command_desk::order& x);
  std::string status_text() const;
  /// Throws input_error if the worker is unknown, or no process of this run can be replaced.
  int process_named(const std::string& worker) const;

  // Records for viewers (showing.cpp).

  /// `state`: "starting", "training", ...; has static lifetime.
  void show(const char* state);
  void show_member(const residence& where, const char* state, const std::string& why = {}) const;
  void show_process(int process, const char* state, const std::string& why = {}) const;
  void tell_monitor_of_processes();
  /// Shows all stages, or those of one process.
  void show_stages(const char* state,
                   std::optional<int> process = {},
                   const std::string& why = {}) const;
  void show_keepers(const std::vector<int>& of) const;
  void show_norms(const runtime::square_norms& all, double grad_norm);
  void show_save(const char* state, std::uint64_t iteration, const std::string& why = {}) const;

  // One step (transaction.cpp).

  void decide();
  runtime::step_result sum_votes();
  void take_executed();
  void end_evaluation_round();
  void commit();
  messages::committed commit(runtime::committed_step done);
  messages::committed report_step(const runtime::step_ledger::pen& by);
  void tell(const runtime::run_event& x);

  template <class Order>
  void tell_replicas(const Order& x) {
    for (const auto& replica : replicas_)
      if (replica)
        context_->messages->send(self_, replica, x);
  }
  template <class Fact>
  void tell_watchers(const Fact& x) {
    if (monitor_)
      context_->messages->send_at_once(self_, monitor_, x);
    for (const auto& viewer : viewers_)
      context_->messages->send_at_once(self_, viewer, x);
  }
  runtime::generation_id generation() const { return members_->generation(); }
  /// LEDGER-3.
  runtime::step_ledger::pen pen() const { return context_->ledger->by(epoch_of(generation())); }
  std::uint64_t clock_ns() const;  ///< time of the actor system's clock

  messages::supervisor_actor::pointer self_;
  messages::node_actor node_;
  messages::front_actor front_;
  messages::job_description told_;
  std::shared_ptr<const opened_job> job_;
  std::shared_ptr<const supervisor_resources> context_;
  std::optional<membership> members_;

  struct watched_actor {
    residence where;
    runtime::generation_id generation;
    caf::actor_addr address;
  };
  std::vector<watched_actor> watched_;
  std::set<caf::actor_addr>
      awaits_cause_;  ///< deaths that wait for the cause from a process's host
  std::optional<messages::process_died>
      unreachable_;  ///< the first one, while its cause is awaited
  caf::actor_addr node_address_;
  std::vector<messages::replica_actor> replicas_;
  messages::monitor_actor monitor_;
  std::vector<messages::viewer_actor> viewers_;
  /// A process that hosts ranks, and its services.
  struct hosting {
    messages::node_actor node;
    std::string host;
    int kept_in = home;                          ///< process of the keeper of their states
    messages::loader_actor loader, told_loader;  ///< the one that the ranks know
    messages::keeper_actor keeper, told_keeper;
    bool is_keeper_new = false;          ///< replaced a dead one and has not reported yet
    messages::keeper_actor told_holder;  ///< of its ranks' initial state
    struct {
      messages::keeper_actor keeper;
      runtime::step_id step = {};
    } store_told;  ///< the keeper that was last asked to write to a disk, and the step
    messages::shard_writer_actor writer;  ///< none: no writer is needed, or it is dead
  };
  std::vector<hosting> processes_;
  messages::checkpointer_actor checkpointer_;
  messages::checkpointer_actor told_checkpointer_;  ///< the one that the ranks know
  bool ranks_asked_for_ = false;
  /// Generation of the save that the checkpointer must abandon; set until it answers.
  std::optional<runtime::generation_id> abandoning_;
  bool without_monitor_ = false;  ///< it died too often
  /// Spawn requests without an answer.
  std::map<std::uint64_t, residence> expected_;
  std::uint64_t asked_ = 0;
  struct {
    order_look order = {};
    found_on_disks found = {};
  } look_;
  int ready_ = 0;       ///< replicas that stand
  bool begun_ = false;  ///< all of the generation are there
  std::optional<order_form> forming_;
  struct {
    member_death cause = {};
    std::uint64_t began_ns = 0;  ///< when it was noticed; 0: no death
    /// Times at which the last process had ended its generation and the last one had started.
    std::uint64_t released_ns = 0, stands_ns = 0;
    double transfer = 0;  ///< seconds of the slowest replica
  } loss_;

  runtime::training_position at_;                     ///< newest committed step
  std::optional<runtime::training_position> before_;  ///< the one before, in this generation
  std::optional<messages::run_step> now_;
  std::chrono::steady_clock::time_point began_at_;  ///< of the running step
  runtime::step_report report_;
  bool decided_ = false;  ///< all have voted for the running step
  /// Waiting until the newest step is kept.
  bool waits_to_decide_ = false, waits_to_finish_ = false;
  std::optional<messages::process_may_move> may_move_;
  std::map<int, messages::kept> kept_by_;  ///< newest report of each process, in this generation
  std::uint64_t told_to_store_ = 0;        ///< in this generation
  std::uint64_t on_all_disks_ = 0;         ///< newest step known to be on all disks; 0: none
  int left_out_ = 0;                       ///< consecutive due steps that were not written to disks
  std::uint64_t newest_left_out_ = 0;
  std::vector<messages::vote> votes_;
  std::vector<messages::executed_row> executed_;  ///< of the running step
  std::vector<messages::applied> applied_;
  cross_check check_;
  second_runs twice_;
  /// Processes in places that are no longer trusted, waiting for their exchange: their keeper, or
  /// the process that they keep, is being exchanged.
  struct doubted_process {
    std::uint32_t incarnation = 0;
    std::uint64_t step = 0;  ///< that it computed wrong
    std::string why;
    process_loss how = process_loss::wrong_bits;
  };
  std::map<int, doubted_process> doubted_;
  runtime::recipe recipe_;  ///< the job's, with the rate changes of commands
  struct {
    bool paused = false;
    bool evaluates = false;                    ///< after the newest step
    std::uint64_t eval_interval = 0;           ///< 0: never
    std::optional<std::uint64_t> stops_after;  ///< step
    std::uint64_t timed_until = 0;             ///< last step that reports its timeline
    std::string norms_of;                      ///< prefix of parameter names
    std::set<std::string> parameters;          ///< names in votes; empty before the first step
    std::uint64_t norms_until = 0;             ///< last step that reports gradient norms
    bool looks_at_clock = false;               ///< a message to itself is on its way
  } control_;
  std::optional<stragglers> slow_;
  std::optional<std::uint64_t> validated_;       ///< iteration of the last validation
  std::optional<std::uint64_t> validated_told_;  ///< where the run started, if it trains
  bool tested_ = false;
  struct {
    bool test = false;                             ///< the test set; else the validation set
    std::vector<runtime::loss_value> losses = {};  ///< by index in the model
    std::uint64_t consumed = 0;                    ///< samples of the set before the next round
    std::int64_t microbatches = 0;                 ///< of each replica, still to come
  } evaluation_;
  save_schedule saves_;
  std::uint64_t attempt_ = 0;  ///< number of the newest save
  std::uint64_t saving_ = 0;   ///< iteration of the newest save
  std::uint64_t save_began_ns_ = 0;
  const char* shown_ = nullptr;  ///< newest state in the records; null: none yet
  bool waits_to_save_ = false;   ///< until save_again
  std::string unsaved_;          ///< why the newest save failed; empty: it did not
  bool is_cold_ = false;         ///< it continues a dead run's ledger; no process of that run lives
  bool draining_ = false;
  bool time_is_up_ = false;  ///< `exit_minutes` have passed
  std::string diagnosis_;    ///< the error that ends the run early; empty: none
  bool gives_up_ = false;    ///< within a step; only the running save is finished
  bool concluding_ = false, shut_down_ = false;
  bool has_waited_for_monitor_ = false;  ///< one hung at the end and was replaced
  struct {
    std::string waits_for;       ///< wait of this supervisor at the first report
    std::uint64_t since_ns = 0;  ///< time of that report
    struct report {
      std::uint64_t at_ns = 0;
      std::string graph;
    };
    std::map<int, report> of = {};  ///< the newest, by process
  } still_;
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
