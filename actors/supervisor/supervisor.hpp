// The supervisor: the root of a job.
//
// It has processes started and the others spawned, drives the steps, decides when everybody has
// voted, says `committed` when everybody has applied, has checkpoints written, and ends the job: in
// order when it is done, with the first cause when somebody has died and may not be replaced. What
// follows a death it asks of a machine without actors (membership.hpp), whose orders it carries out
// (recovery.cpp, services.cpp).
//
// What it knows of the run is in the ledger of its process, from which a successor goes on.

#pragma once

#include "actors/node/context.hpp"
#include "actors/supervisor/cross_check.hpp"
#include "actors/supervisor/membership.hpp"
#include "actors/supervisor/save_schedule.hpp"
#include "actors/supervisor/second_run.hpp"
#include "actors/supervisor/stored_steps.hpp"
#include "actors/supervisor/stragglers.hpp"
#include "messages/protocol/actors.hpp"

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

/// Whom a supervisor comes after.
struct succession {
  std::uint32_t epoch = 0;  ///< 0: it is the first of the run
  std::string why = {};     ///< the one before died
  /// With all of its processes: the run is started again (actors/job/cold_start.hpp).
  bool is_cold = false;
  /// When that was noticed, in nanoseconds of the actors' clock; 0: now.
  std::uint64_t noticed_ns = 0;
};

class supervisor_state {
 public:
  static constexpr const char* name = "supervisor";

  explicit supervisor_state(messages::supervisor_actor::pointer self) : self_(self) {}
  ~supervisor_state();

  void start(messages::node_actor node,
             messages::job_description told,
             std::shared_ptr<const node_context> context,
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
  void receive(const messages::taken_for_dead& x);  // waiting.cpp
  void drain(const messages::drain& x);
  const std::shared_ptr<runtime::lane_board::place>& place() const { return place_; }

 private:
  void begin(const succession& after);

  // Who is in (recovery.cpp).

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
  /// Where the run ends of what is heard first, and a process's host is about to tell why.
  std::chrono::milliseconds patience_with_causes() const;
  void lose_process(int process,
                    std::uint32_t incarnation,
                    const std::string& why,
                    process_loss how = process_loss::died);
  /// Two processes that may both live cannot reach each other, says the first.
  void lose_connection(const messages::taken_for_dead& x,
                       int from,
                       const messages::process_name& to);
  /// Whoever lived there is, too.
  void forget_process(int process);
  /// Whether one does, to a host of its own.
  bool move_process();
  void note_loss(const member_death& death);
  void end_services_before();
  void settle_keepers();
  void tell_keepers(const std::vector<int>& before) const;
  /// Who answers for what is kept in that process, in memory and on its host's disk; null: it is
  /// being spawned.
  messages::keeper_actor keeper_in(int process) const;
  /// Who has the state that the ranks of a process begin with; null: they have it themselves, or it
  /// is elsewhere.
  messages::keeper_actor holder_for(int process) const;
  /// Of a step that the run may go back to. Of those that run again the ledger may know it no more.
  std::optional<runtime::training_position> position(std::uint64_t step) const;
  void forget_step();
  void abandon_save();
  void tell_restart();
  /// A promise that ranks have broken: those that have what they must have alike do not. Their
  /// step runs again.
  void suspect(const std::string& why);
  /// Nobody has broken one: the step that has been voted runs once more.
  void run_again(const std::string& why);
  void refuse(const caf::error& reason);
  void begin_when_ready();
  /// The end that was meant, or that cannot be helped.
  void end(int exit_code, const std::string& why);
  /// The same as soon as what is decided is committed, and what is being saved is saved.
  void give_up(const std::string& why);
  void end_processes();

  // Who is spawned where (services.cpp).

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
  bool can_save() const;  ///< whoever writes is there
  void spawn_viewers();
  void spawn_replicas();
  std::vector<messages::hosting_process> hosting_processes() const;
  static constexpr int home = -1;  ///< the process of this actor

  /// Where an actor lives and whom it serves, for when it dies.
  struct residence {
    std::string name;
    member_role role = {};
    int lives_in = home;  ///< process
    int serves = 0;       ///< process whose ranks
  };
  /// Asks the node of that process; `keep` takes the answer, and the new actor is watched.
  template <class Answer, class Request, class Keep>
  void spawn(Request what, residence where, Keep keep);
  template <class Handle>
  void watch(residence where, const Handle& actor);
  /// A process's services have its number where there are several.
  std::string name_of_service(const char* what, int process) const;
  const messages::node_actor& node_in(int process) const {
    return process == home ? node_ : processes_[std::size_t(process)].node;
  }
  /// Where process `x` keeps its loader, and its ranks.
  int host_of(int x) const { return processes_.size() == 1 ? home : x; }
  /// The states of ranks are kept in other processes.
  bool keeps() const { return processes_.size() > 1 && job_->job.recovery.on; }
  /// And written to disks of their hosts, after this step.
  bool is_stored(std::uint64_t step) const {
    const auto interval = job_->job.checkpoints.local_interval;
    return keeps() && interval > 0 && step > 0 && step % interval == 0;
  }
  /// Each process writes what its ranks give to a checkpoint.
  bool writes_apart() const { return processes_.size() > 1 && !job_->job.checkpoints.save.empty(); }
  bool is_kept(std::uint64_t step) const;
  // storing.cpp:
  void store_if_due();
  std::uint64_t stored_by_all() const;
  void leave_out(int process, std::uint64_t step);
  /// That messages speak of: one beside this one, which hosts ranks.
  bool is_process(int x) const {
    return processes_.size() > 1 && x >= 0 && x < int(processes_.size());
  }

  // For whom it waits (waiting.cpp).

  void take_place();
  std::vector<std::string> keepers_waited_for() const;
  /// What it is told as an answer, or of a death: as a message on the board.
  std::unique_ptr<runtime::lane_board::place::at_message> take_turn(const char* what) const;
  runtime::lane_board::place::waiting waits_for() const;

  // What comes after a step, a validation or a save (supervisor.cpp).

  void proceed();
  /// A step of this run that was committed before is running again.
  bool replays() const { return at_.iteration < context_->ledger->newest(); }
  bool validation_is_due() const;
  bool test_is_due() const;
  bool is_over() const;
  bool is_at_end() const;  ///< of the training
  void begin_step();
  /// Another step is to come after this one, as far as is known.
  bool is_followed(std::uint64_t step) const;
  bool is_timed(std::uint64_t step) const;
  void begin_validation();
  void begin_test();
  void begin_evaluation(std::uint64_t consumed, bool test);
  void begin_evaluation_round();
  int snapshot_parts() const;
  void begin_save();
  void finish();
  void shut_down();
  void say_when(const std::string& why) const;
  void look_at_clock();

  // Who computes wrong bits, and who is slow (checking.cpp).

  /// What replicas must have alike they have; else the step runs again, and false.
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
  /// As many of the doubted as may go at once; false: none.
  bool exchange_doubted();
  /// Those that had to wait, when the step that they computed wrong has come out right.
  bool exchange_when_kept();
  int process_of(int replica, int stage) const;
  std::string name_of_stage(int replica, int stage) const;  ///< "stage:1.0"
  void look_for_stragglers();
  /// "stage:1.0", where there are several processes with its own and the host of that.
  std::string name_and_place_of(int replica, int stage) const;

  // What is not finite (nonfinite.cpp).

  /// The step that has been voted is not finite, and it is not known yet whether it is so again:
  /// it is on its way back.
  bool is_to_run_again(const runtime::step_verdict& verdict, const std::string& where);
  void tell_of(const second_runs::finding& x);
  std::string place_of(const second_runs::finding& x) const;
  /// Where one process has all stages of that replica.
  void doubt_if_alone(int replica, const std::string& why);

  // A step (transaction.cpp).

  void decide();
  runtime::step_result sum_votes();
  void take_executed();
  void end_evaluation_round();
  void commit();
  messages::committed commit(runtime::committed_step done);
  messages::committed report_step(const runtime::step_ledger::pen& by);
  void tell_step(const messages::committed& told);
  void tell(const runtime::run_event& x);
  void come_to(runtime::moment_of_step at, std::uint64_t step) const;

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
  /// LEDGER-3
  runtime::step_ledger::pen pen() const { return context_->ledger->by(epoch_of(generation())); }
  std::uint64_t clock_ns() const;  ///< of the actor system

  messages::supervisor_actor::pointer self_;
  messages::node_actor node_;
  messages::front_actor front_;
  messages::job_description told_;
  std::shared_ptr<const opened_job> job_;
  std::shared_ptr<const node_context> context_;
  std::optional<membership> members_;

  struct watched_actor {
    residence where;
    runtime::generation_id generation;
    caf::actor_addr address;
  };
  std::vector<watched_actor> watched_;
  std::set<caf::actor_addr> awaits_cause_;             ///< whose deaths wait for that of a process
  std::optional<messages::process_died> unreachable_;  ///< the first, while its cause is waited for
  caf::actor_addr node_address_;
  std::vector<messages::replica_actor> replicas_;
  messages::monitor_actor monitor_;
  std::vector<messages::viewer_actor> viewers_;
  /// A process that hosts ranks, and who serves them.
  struct hosting {
    messages::node_actor node;
    std::string host;
    int kept_in = home;                          ///< where the keeper of their states lives
    messages::loader_actor loader, told_loader;  ///< that the ranks know
    messages::keeper_actor keeper, told_keeper;
    bool is_keeper_new = false;  ///< in the place of one that has died, and has said nothing yet
    messages::keeper_actor told_holder;  ///< of the state that its ranks begin with
    struct {
      messages::keeper_actor keeper;
      runtime::step_id step = {};
    } store_told;                         ///< who was told last to write to a disk, and what
    messages::shard_writer_actor writer;  ///< none: nobody is to write there, or it is dead
  };
  std::vector<hosting> processes_;
  messages::checkpointer_actor checkpointer_;
  messages::checkpointer_actor told_checkpointer_;  ///< that the ranks know
  bool ranks_asked_for_ = false;
  /// The generation whose save the checkpointer is to forget, and has not answered yet.
  std::optional<runtime::generation_id> abandoning_;
  bool without_monitor_ = false;  ///< it died too often
  /// Those who were asked for and have not answered yet.
  std::map<std::uint64_t, residence> expected_;
  std::uint64_t asked_ = 0;
  struct {
    order_look order = {};
    found_on_disks found = {};
  } look_;
  int ready_ = 0;       ///< replicas that stand
  bool begun_ = false;  ///< everybody of the generation is there
  std::optional<order_form> forming_;
  struct {
    member_death cause = {};
    std::uint64_t began_ns = 0;  ///< when the news came; 0: nobody died
    /// When the newest process had ended its generation; when the newest had been started.
    std::uint64_t released_ns = 0, stands_ns = 0;
    double transfer = 0;  ///< seconds, of the slowest replica
  } loss_;

  runtime::training_position at_;                     ///< the newest committed step
  std::optional<runtime::training_position> before_;  ///< the one before, of this generation
  std::optional<messages::run_step> now_;
  std::chrono::steady_clock::time_point began_at_;  ///< the step that is running
  runtime::step_report report_;
  bool decided_ = false;  ///< everybody has voted for the step that is running
  /// Until the newest step is kept.
  bool waits_to_decide_ = false, waits_to_finish_ = false;
  std::optional<messages::process_may_move> may_move_;
  std::map<int, messages::kept> kept_by_;  ///< in this generation: of each process, the newest
  std::uint64_t told_to_store_ = 0;        ///< in this generation
  std::uint64_t on_all_disks_ = 0;         ///< the newest step of which that is known; 0: none
  int left_out_ = 0;                       ///< steps in a row, of those that were due for disks
  std::uint64_t newest_left_out_ = 0;
  std::vector<messages::vote> votes_;
  std::vector<messages::executed_row> executed_;  ///< of the step that is running
  std::vector<messages::applied> applied_;
  cross_check check_;
  second_runs twice_;
  /// Processes whose places are not to be trusted, and have to wait: what another keeps, that is
  /// being exchanged, or whom that one keeps.
  struct doubted_process {
    std::uint32_t incarnation = 0;
    std::uint64_t step = 0;  ///< it computed wrong
    std::string why;
  };
  std::map<int, doubted_process> doubted_;
  std::optional<stragglers> slow_;
  std::optional<std::uint64_t> validated_;       ///< the iteration after which validation last ran
  std::optional<std::uint64_t> validated_told_;  ///< where the run started, if it is trained
  bool tested_ = false;
  struct {
    bool test = false;  ///< of the test set, else of the validation set
    runtime::loss_value loss = {};
    std::uint64_t consumed = 0;     ///< samples of the set before the next round
    std::int64_t microbatches = 0;  ///< of each replica that are still to come
  } evaluation_;
  save_schedule saves_;
  std::uint64_t attempt_ = 0;   ///< to save, the newest
  bool waits_to_save_ = false;  ///< until save_again
  std::string unsaved_;         ///< why the newest save failed; empty: it did not
  bool is_cold_ = false;        ///< it has what a run that died had committed, and nobody of it
  bool draining_ = false;
  bool time_is_up_ = false;  ///< `exit_minutes` have passed
  std::string diagnosis_;    ///< why the run ends early, with an error; empty: it does not
  bool gives_up_ = false;    ///< in the midst of a step: no more is saved than is being saved
  bool concluding_ = false, shut_down_ = false;
  bool has_waited_for_monitor_ = false;                ///< one hung at the end, and was replaced
  std::shared_ptr<runtime::lane_board::place> place_;  ///< last: it reads the others
};

messages::supervisor_actor::behavior_type supervisor(
    messages::supervisor_actor::stateful_pointer<supervisor_state> self,
    messages::node_actor node,
    messages::job_description told,
    std::shared_ptr<const node_context> context,
    messages::front_actor front,
    const succession& after);

}  // namespace troupe::actors
