// The stage: one rank of the mesh, which carries out the row of its pipeline rank.
//
// It decides what is ready and who is told. The work itself is done by its lane, so that the actor
// never blocks; the arithmetic is the worker's, which lives on the lane. Where sums of gradients
// and gathered parameters are to overlap it, a second lane carries them: the communication lane. At
// most `ahead` pieces of work wait in the lane: enough to keep it busy while threads are woken. A
// behaviour is asked for `chosen_ahead` at a time: it decides late, by what it has seen.
//
// An action whose result another rank takes begins once that has a credit, which comes back when
// the result was redeemed: so a slow receiver leaves no more leased here than the plan says
// (PLAN-6).
//
// The row is that of the plan; or a behaviour decides it while it runs: that of the first tensor
// rank is asked, and tells the others.

#pragma once

#include "actors/node/context.hpp"
#include "messages/protocol/actors.hpp"
#include "runtime/core/error.hpp"
#include "runtime/schedule/behaviour.hpp"
#include "runtime/trainer/worker.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace troupe::actors {

/// What a stage's lanes work on (stage_context.hpp).
struct stage_context;

/// What any thread needs to put work on a lane and have it told to the actor.
struct lane_task;

/// Carried out on a lane.
using lane_work = std::function<void(stage_context&, runtime::stream&)>;

class stage_state {
 public:
  static constexpr const char* name = "stage";
  static constexpr int ahead = 8;
  static constexpr int chosen_ahead = 2;

  explicit stage_state(messages::stage_actor::pointer self) : self_(self) {}

  /// Those that wait for this stage are released first: its lane may be waiting for them. Its lanes
  /// are joined by who may wait (lane_reaper.hpp).
  ~stage_state();

  /// Builds the worker on the lane; `ready` is said when it stands.
  void start(messages::spawn_stage told,
             std::shared_ptr<const opened_job> job,
             std::shared_ptr<const node_context> node,
             std::shared_ptr<group_registry> groups);

  void meet(const messages::meet& peers);
  void run(const messages::run_step& step);
  void receive(const messages::activation& x);
  void receive(const messages::gradient& x);
  void receive(const messages::batch_ready& x);
  void receive(const messages::batch_failed& x);
  void receive(const messages::check_pass& x);
  void receive(const messages::chosen& x);
  void ask_again(const messages::ask_again& x);
  void decide(const messages::decision& x);
  void take_snapshot(const messages::take_snapshot& x);
  void drop_snapshot(const messages::drop_snapshot& x);
  void receive(const messages::kept_state& x);
  void receive(const messages::keep_refused& x);
  void receive(const messages::use_loader& x);
  void receive(const messages::use_keeper& x);
  void receive(const messages::use_checkpointer& x);
  void finish(const messages::lane_done& x);
  const std::shared_ptr<runtime::lane_board::place>& place() const { return place_; }
  const std::shared_ptr<const message_path>& path() const { return node_->messages; }

 private:
  bool is_ours(runtime::generation_id x) const { return x == told_.generation; }

  enum class arrival { activation, gradient, batch };
  using inbox_key = std::pair<arrival, messages::pass_id>;

  /// Where a behaviour decides, on the tensor rank that asks it.
  struct policy_state {
    std::unique_ptr<runtime::behaviour> by;
    runtime::stage_book book;
    std::uint64_t questions = 0;
  };

  /// An action, and when its stream came to it and left it.
  struct carried_out {
    runtime::action what;
    runtime::moment begin = {}, end = {};
  };

  /// Where the time of an action went, on its stream.
  struct time_spent {
    runtime::moment begin = {}, end = {};
    runtime::moment redeems = {}, redeemed = {};  ///< the same of what it took from other ranks
    std::uint64_t bytes = 0;                      ///< of that
    /// Nanoseconds of both in which the lane had no core.
    std::uint64_t no_core = 0, no_core_redeeming = 0;
  };

  /// Where the time of the step that is running goes, where slow workers are looked for.
  struct step_times {
    std::vector<time_spent> actions = {};
    double awaiting_batches = 0, awaiting_ranks = 0;  ///< seconds
    std::uint64_t waits_since_ns = 0;                 ///< 0: it does not
    bool waits_for_batch = false;
  };

  using check_key = std::pair<runtime::chunk_id, runtime::microbatch_id>;

  struct progress {
    messages::run_step step;
    std::shared_ptr<const runtime::plan> plan;
    std::shared_ptr<const runtime::handoff_credits> credits;
    std::vector<runtime::action> row;  ///< B written as I and W; where a behaviour decides it grows
    std::size_t length = 0;            ///< of the row in the end
    std::size_t next = 0;
    int in_lane = 0;
    std::size_t finished = 0;
    int unreduced = 0;  ///< buckets whose sum is still on its way
    bool voting = false;
    std::optional<policy_state> policy = {};
    std::uint64_t choices = 0;               ///< of the behaviour, in this row
    std::vector<carried_out> executed = {};  ///< where asked for
    step_times times = {};
    /// Passes of another replica that this stage computes again, ascending; the first `submitted`
    /// are in the lane, the first `checked` are done.
    std::vector<check_key> checks = {};
    std::size_t checks_submitted = 0;
    std::vector<messages::checked_pass> checked = {};
    /// The newest of them added to the gradients of this chunk otherwise than it had.
    std::optional<runtime::chunk_id> adds_otherwise = {};
  };

  /// Of one chunk and direction.
  struct handoffs {
    int lent = 0;  ///< credits, that have not come back
    /// Results that are being made, or are leased here.
    std::shared_ptr<std::atomic<int>> out = std::make_shared<std::atomic<int>>(0);
  };
  using handoff_key = std::tuple<runtime::copy_id, runtime::chunk_id, bool>;  ///< is a gradient

  bool is_first(runtime::chunk_id c) const { return job_->pipeline.is_first(c); }
  bool is_last(runtime::chunk_id c) const { return job_->pipeline.is_last(c); }
  bool hosts(runtime::chunk_id c, runtime::copy_id copy = {}) const {
    return job_->pipeline.schedule->rank_of(c, copy) == told_.pipeline_rank;
  }
  /// Logical replicas that this one plays: in turn, or each with its copy of the model.
  int logical_replicas() const { return job_->replicas_each() * job_->pipeline.schedule->copies(); }
  /// In its replica; pipeline rank first, as the replica counts.
  int stage_index() const { return told_.pipeline_rank * job_->tensor_ranks() + told_.tensor_rank; }

  /// Where an action belongs, in the step that is running.
  messages::pass_id pass_of(const runtime::action& x) const;
  void keep(arrival kind, const messages::pass_id& at, const runtime::ticket_bundle& data);
  bool is_second_batch(arrival kind,
                       const messages::pass_id& at,
                       const runtime::ticket_bundle& data);

  // Micro-batches (batches.cpp).

  messages::request_batch batch_of(const messages::run_step& step,
                                   const runtime::chunk_copy& hosted,
                                   int microbatch) const;
  std::vector<messages::request_batch> batches_of(const messages::run_step& step) const;
  int copies_in(const messages::run_step& step) const;  ///< of the model
  void request(const messages::request_batch& x);
  void send_request(messages::request_batch x);
  /// Of the step that begins, but for those that were asked for ahead and did not fail.
  void request_batches();
  /// Those of the step that will follow, once all of this one are here.
  void request_ahead();

  /// Asks the behaviour for what comes next, as long as the lane has room.
  void ask_policy();
  /// What the call on a behaviour returns; its failure is the user's, and named.
  template <class Call>
  auto ask(Call&& call) {
    const auto& schedule = *job_->pipeline.schedule;
    try {
      return runtime::ask_behaviour(schedule.name(), told_.pipeline_rank, schedule.ranks(), call);
    } catch (const runtime::input_error& failure) {
      throw runtime::input_error("{} (in step {}; in its rehearsal it had come to an end)",
                                 failure.what(),
                                 runtime::value(step_));
    }
  }
  void append_chosen(const runtime::action& x);
  void append_early();
  void choose(const runtime::action& x);
  void note_arrival(arrival kind, const messages::pass_id& at);

  /// For results like this action's (credits.cpp); 0: no other rank takes them.
  int credits_for(const runtime::action& x) const;
  handoffs& handoffs_of(const runtime::action& x);
  bool has_credit(const runtime::action& x);
  /// It comes back as a piece of work that has ended, when the last to hold it lets go.
  std::shared_ptr<const void> lend_credit(const runtime::action& x);
  bool take_credit_back(std::uint64_t number);
  /// The behaviour is offered only what has a credit.
  void bound_policy();

  // Passes that are computed again elsewhere, and those of others (verifying.cpp).

  bool is_verified(const runtime::action& x) const;
  /// What another replica's stage of this place is to be sent of a pass, and is sent.
  void send_to_check(const runtime::action& x, messages::check_pass what);
  void expect_checks();
  /// Once its own row is done: all in one order on all tensor ranks, which sum together.
  void check_passes();
  void check(const messages::check_pass& x);

  /// Hands the lane what is ready, in the order of the row.
  void pump();
  void fill_lane();
  bool takes_times() const { return job_->job.watch.straggler_ratio > 0 && !now_->step.validation; }
  /// The lane has nothing to do, or has again: for what it waits is taken down (timing.cpp).
  void note_waiting();
  static messages::stage_times times_of(const step_times& x, const runtime::stream& by);
  /// It is the first to take the gradient that comes from the next stage.
  bool begins_backward(const runtime::action& x) const;
  /// The tickets that the action consumes, or nothing while one is missing.
  std::optional<runtime::ticket_bundle> inputs_of(const runtime::action& x);
  void submit(const runtime::action& x, runtime::ticket_bundle inputs);
  void pass_on(const runtime::action& x, const runtime::ticket_bundle& outputs);
  const messages::stage_actor& holder_of(const messages::pass_id& at) const;
  /// When the row is done and every bucket reduced.
  void vote_if_done();
  void vote();
  /// The copy of the model whose head is here, if it is this rank that says its loss; else -1.
  int head_copy() const;

  void begin_row(const messages::run_step& step);
  void join_groups();
  /// On the board of the process, with its lanes (waiting.cpp).
  void take_places();
  /// For whom, as who looks for a hang is told.
  runtime::lane_board::place::waiting waits_for() const;
  std::string name_of(int replica, int pipeline_rank, int tensor_rank) const;  ///< "0.1"
  std::string name_of_rank(int pipeline_rank) const;  ///< of its replica: "0.1"
  runtime::lane_settings settings_of_lane(const std::string& called) const;
  void build();
  /// Asks a keeper for the state to begin with.
  void fetch_state();
  /// The newest state, or that it is the one before.
  void give_to_keeper(bool unchanged = false);
  void expect_buckets();
  void gather_parameters();
  /// Other processes of the host use what this rank sums and gathers where it lies.
  bool sums_by_mapping() const;
  bool overlaps_gradients() const;
  bool overlaps_parameters() const;
  runtime::pass_key key_of(runtime::chunk_id chunk, runtime::microbatch_id microbatch) const;

  /// `what` runs on the lane, under this name in the trace; then `after` on the actor.
  void submit(std::string label, lane_work what, std::function<void()> after);
  /// The same on the communication lane, beside it.
  void submit_communication(std::string label, lane_work what, std::function<void()> after);

  /// What `begin` returns, on the lane, is carried out on the saver; the lane goes on until it is
  /// to update.
  void submit_to_saver(std::string label,
                       std::function<lane_work(stage_context&)> begin,
                       std::function<void()> after);

  lane_task task_for(std::string label, int track, std::uint64_t work) const;

  messages::stage_actor::pointer self_;
  std::string where_;  ///< "1.2", or "1.2.0" where there are several tensor ranks
  std::string who_;
  messages::spawn_stage told_;
  std::shared_ptr<const opened_job> job_;
  std::shared_ptr<const node_context> node_;
  std::shared_ptr<group_registry> groups_;
  messages::meet peers_;
  std::map<inbox_key, runtime::ticket_bundle> inbox_;
  /// Choices of the first tensor rank that came before their turn, by step and number.
  std::map<std::pair<runtime::step_id, std::uint64_t>, runtime::action> early_;
  std::set<inbox_key> seen_;  ///< all that has arrived since our last vote
  /// To compute again, by step.
  std::map<std::pair<runtime::step_id, check_key>, messages::check_pass> to_check_;
  /// Batches that were asked for and have not come; and, come or not, those that are asked for
  /// although their step has not begun.
  std::map<messages::pass_id, messages::request_batch> awaited_, asked_ahead_;
  std::set<messages::pass_id> failed_ahead_;           ///< of the latter: asked again in their step
  std::vector<runtime::ticket> snapshot_;              ///< the newest, of this rank
  std::uint64_t snapshot_attempt_ = 0;                 ///< to save, which it is for
  bool stands_ = false;                                ///< its worker is built
  std::vector<runtime::ticket> given_, given_before_;  ///< to the keeper, the newest two states
  std::optional<runtime::step_id> refused_;            ///< that the keeper asked for again
  std::optional<messages::state_of_rank> fetched_;     ///< to begin with
  std::uint64_t asked_ns_ = 0;                         ///< when the keeper was first asked for it
  std::optional<progress> now_;
  runtime::step_id step_ = {};   ///< the newest that has begun
  runtime::step_id voted_ = {};  ///< the newest training step that we have voted for
  std::uint64_t submitted_ = 0;
  int passed_over_ = 0;  ///< how often the behaviour was
  /// Of the actions that were timed (with a behaviour all of them) and that the stream has passed.
  double longest_ms_ = 0;
  std::map<std::uint64_t, std::function<void()>> after_;
  std::map<handoff_key, handoffs> handed_on_;
  std::map<std::uint64_t, runtime::action> lent_;  ///< credits, by number
  std::shared_ptr<void> held_;                     ///< until the lanes have ended
  std::shared_ptr<stage_context> context_;
  // Last, because they are destroyed first. Gradients travel on the communication lane while the
  // lane computes, where that is wanted; snapshots of a device are read by the saver. The lane
  // before the others: its work may hand some on, or wait for it.
  std::unique_ptr<runtime::lane> saver_, communication_lane_;
  std::unique_ptr<runtime::lane> lane_;
  std::shared_ptr<runtime::lane_board::place> place_;  ///< after all: it reads the others
};

messages::stage_actor::behavior_type stage(
    messages::stage_actor::stateful_pointer<stage_state> self,
    messages::spawn_stage told,
    std::shared_ptr<const opened_job> job,
    std::shared_ptr<const node_context> node,
    std::shared_ptr<group_registry> groups);

}  // namespace troupe::actors
