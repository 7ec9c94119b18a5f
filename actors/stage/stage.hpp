// A stage actor: runs one rank of the mesh, which executes the row of its pipeline rank.
//
// The actor decides which action is ready and which actors are notified. Its lane executes the
// actions with the worker, so the actor never blocks. With overlapped reductions, a second lane
// (the communication lane) sums gradients and gathers parameters. At most `ahead` actions are
// queued in the lane, enough to keep it busy while threads wake up. With a behaviour at most
// `chosen_ahead` are queued, so that it decides late, with recent information.
//
// An action needs a credit if its result goes to another rank. The credit returns when the result
// is redeemed, so a slow receiver causes at most the leases that the plan allows (PLAN-6).
//
// The row comes from the plan, or a behaviour chooses it at run time. The leading rank of the stage
// runs the behaviour and sends its choices to the others.

#pragma once

#include "actors/host/stage_resources.hpp"
#include "actors/stage/timing.hpp"
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

/// State used by a stage's lanes (stage_context.hpp).
struct stage_context;

/// One piece of work for a lane. Its completion is sent to the actor.
struct lane_task;

/// Runs on a lane.
using lane_work = std::function<void(stage_context&, runtime::stream&)>;

class stage_state {
 public:
  static constexpr const char* name = "stage";
  static constexpr int ahead = 8;
  static constexpr int chosen_ahead = 2;

  explicit stage_state(messages::stage_actor::pointer self) : self_(self) {}

  /// First releases the members that wait for this stage, since its lane may wait for them. The
  /// reaper thread joins the lanes (lane_reaper.hpp).
  ~stage_state();

  /// Starts the lanes. The worker is built after `meet`; then the replica gets `ready`.
  void start(messages::spawn_stage told,
             std::shared_ptr<const opened_job> job,
             std::shared_ptr<const stage_resources> node,
             std::shared_ptr<group_registry> groups);

  void meet(const messages::meet& peers);
  void receive(const messages::group_opened& x);
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

  /// A behaviour and its view, on the leading rank of the stage.
  struct policy_state {
    std::unique_ptr<runtime::behaviour> by;
    runtime::stage_book book;
    std::uint64_t questions = 0;
  };

  /// An executed action, with begin and end on its stream.
  struct carried_out {
    runtime::action what;
    runtime::moment begin = {}, end = {};
  };

  /// Times of the current step; recorded while slow workers are looked for.
  struct step_times {
    std::vector<time_spent> actions = {};
    double awaiting_batches = 0, awaiting_ranks = 0;  ///< seconds
    std::uint64_t waits_since_ns = 0;                 ///< 0: not waiting
    bool waits_for_batch = false;
  };

  using check_key = std::pair<runtime::chunk_id, runtime::microbatch_id>;

  struct progress {
    messages::run_step step;
    std::shared_ptr<const runtime::plan> plan;
    std::shared_ptr<const runtime::handoff_credits> credits;
    /// This rank's actions, with B split into I and W; grows at run time with a behaviour.
    std::vector<runtime::action> row;
    std::size_t length = 0;  ///< final length of `row`
    std::size_t next = 0;
    int in_lane = 0;
    std::size_t finished = 0;
    int unreduced = 0;  ///< buckets not yet reduced
    bool voting = false;
    std::optional<policy_state> policy = {};
    std::uint64_t choices = 0;               ///< of the behaviour, in this row
    std::vector<carried_out> executed = {};  ///< recorded if `timed` is set
    step_times times = {};
    /// Passes of another replica to recompute, ascending. The first `checks_submitted` are in the
    /// lane; the first `checked` are done.
    std::vector<check_key> checks = {};
    std::size_t checks_submitted = 0;
    std::vector<messages::checked_pass> checked = {};
    /// The last recomputed pass of this chunk added different gradients.
    std::optional<runtime::chunk_id> adds_otherwise = {};
  };

  /// Hand-offs of one chunk and direction.
  struct handoffs {
    int lent = 0;  ///< credits not yet returned
    /// Results that are being computed, or are leased.
    std::shared_ptr<std::atomic<int>> out = std::make_shared<std::atomic<int>>(0);
  };
  /// Copy, chunk, is it a gradient.
  using handoff_key = std::tuple<runtime::copy_id, runtime::chunk_id, bool>;

  // Inputs of a pass, from the flow of its chunk.

  bool takes_batch(runtime::chunk_id c) const { return !job_->pipeline.flow(c).batch.empty(); }
  bool takes_activation(runtime::chunk_id c) const {
    return job_->pipeline.flow(c).before.is_crossed();
  }
  bool takes_gradient(runtime::chunk_id c) const {
    return !job_->pipeline.flow(c).after.streams.empty();
  }
  bool hosts(runtime::chunk_id c, runtime::copy_id copy = {}) const {
    return job_->pipeline.schedule->rank_of(c, copy) == pipeline_rank_;
  }
  /// Logical replicas on this stage: computed in turn, or one per copy of the model.
  int logical_replicas() const { return job_->replicas_each() * job_->pipeline.schedule->copies(); }
  int stage_index() const { return job_->seats.stage_index(told_.rank); }

  /// The pass of an action in the current step.
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
  /// Requests the batches of the new step, except those that were requested ahead.
  void request_batches();
  /// Requests the batches of the next step once all of this step have arrived.
  void request_ahead();

  /// Lets the behaviour choose actions while the lane has room.
  void ask_policy();
  /// Calls a behaviour; names it in the error if the call fails.
  template <class Call>
  auto ask(Call&& call) {
    const auto& schedule = *job_->pipeline.schedule;
    try {
      return runtime::ask_behaviour(schedule.name(), pipeline_rank_, schedule.ranks(), call);
    } catch (const runtime::input_error& failure) {
      throw runtime::input_error(
          "{} (in step {}; its rehearsal succeeded)", failure.what(), runtime::value(step_));
    }
  }
  void append_chosen(const runtime::action& x);
  void append_early();
  void choose(const runtime::action& x);
  void note_arrival(arrival kind, const messages::pass_id& at);

  /// Credits of this action's hand-off (credits.cpp); 0 if no other rank takes its result.
  int credits_for(const runtime::action& x) const;
  handoffs& handoffs_of(const runtime::action& x);
  bool has_credit(const runtime::action& x);
  /// Lends a credit. Its return is reported as completed work.
  std::shared_ptr<const void> lend_credit(const runtime::action& x);
  bool take_credit_back(std::uint64_t number);
  /// Offers the behaviour only actions that have a credit.
  void bound_policy();

  // Verification by recomputation (verifying.cpp).

  bool is_verified(const runtime::action& x) const;
  /// Sends a pass to the stage of another replica that recomputes it.
  void send_to_check(const runtime::action& x, messages::check_pass what);
  void expect_checks();
  /// Submits recomputations once the own row is done, in one order on all ranks that communicate in
  /// them.
  void check_passes();
  void check(const messages::check_pass& x);

  /// Submits ready actions to the lane, in the order of the row.
  void pump();
  void fill_lane();
  bool takes_times() const { return job_->job.watch.straggler_ratio > 0 && !now_->step.validation; }
  /// Records what an idle lane waits for, or that its wait is over (timing.cpp).
  void note_waiting();
  static messages::stage_times times_of(const step_times& x, const runtime::stream& by);
  /// True if this action consumes the gradient from the next stage.
  bool begins_backward(const runtime::action& x) const;
  /// The tickets that the action consumes; empty while one is missing.
  std::optional<runtime::ticket_bundle> inputs_of(const runtime::action& x);
  void submit(const runtime::action& x, runtime::ticket_bundle inputs);
  void pass_on(const runtime::action& x, const runtime::ticket_bundle& outputs);
  const messages::stage_actor& holder_of(const messages::pass_id& at) const;
  /// Votes once the row is done and all buckets are reduced.
  void vote_if_done();
  void vote();

  void begin_row(const messages::run_step& step);
  void join_groups();
  /// Registers the stage and its lanes on the process's lane board (waiting.cpp).
  void take_places();
  /// The stage's current wait, for the failure detector.
  runtime::lane_board::place::waiting waits_for() const;
  std::string name_of_rank(int pipeline_rank) const;  ///< of its replica: "0.1"
  /// Pipeline rank of the stage that holds a chunk.
  int rank_of(runtime::chunk_id chunk, runtime::copy_id copy) const;
  static constexpr int rank_of_loader = -1;
  /// Pipeline rank of the sender, or `rank_of_loader`.
  int rank_of_sender(arrival kind, const messages::pass_id& at) const;
  runtime::traffic_counter& traffic_with(bool sent, int rank);
  void note_inbox();  ///< publishes the length of the inbox
  runtime::lane_settings settings_of_lane(const std::string& called) const;
  void build();
  /// Requests the initial state from a keeper.
  void fetch_state();
  /// Sends the newest state to the keeper. `unchanged`: it equals the previous one.
  void give_to_keeper(bool unchanged = false);
  void expect_buckets();
  void gather_parameters();
  /// True if other processes of the host map the arrays that this rank sums and gathers.
  bool sums_by_mapping() const;
  bool overlaps_gradients() const;
  bool overlaps_parameters() const;
  runtime::pass_key key_of(runtime::chunk_id chunk, runtime::microbatch_id microbatch) const;

  /// Runs `what` on the lane, as `label` in the trace, then `after` on the actor.
  void submit(std::string label, lane_work what, std::function<void()> after);
  /// Same as submit(), on the communication lane.
  void submit_communication(std::string label, lane_work what, std::function<void()> after);

  /// Runs `begin` on the lane and its result on the saver. The lane continues until its next
  /// update.
  void submit_to_saver(std::string label,
                       std::function<lane_work(stage_context&)> begin,
                       std::function<void()> after);

  lane_task task_for(std::string label, int track, std::uint64_t work) const;

  messages::stage_actor::pointer self_;
  std::map<std::pair<bool, int>, std::shared_ptr<runtime::traffic_counter>> traffic_;
  std::shared_ptr<runtime::traffic_counters::queue_length> queue_length_;
  std::string where_;  ///< seats::name of its rank: "1.2" or "1.2.0"
  std::string who_;
  messages::spawn_stage told_;
  int replica_ = 0, pipeline_rank_ = 0;  ///< of its rank
  bool leads_ = true;                    ///< false: follows another's choices; see seats
  std::shared_ptr<const opened_job> job_;
  std::shared_ptr<const stage_resources> node_;
  std::shared_ptr<group_registry> groups_;
  messages::meet peers_;
  std::vector<messages::group_opened> opened_;  ///< groups whose other ranks wait for their ids
  std::map<inbox_key, runtime::ticket_bundle> inbox_;
  /// Choices of the rank that it follows, arrived early, by step and number.
  std::map<std::pair<runtime::step_id, std::uint64_t>, runtime::action> early_;
  std::set<inbox_key> seen_;  ///< all arrivals since our last vote
  /// Passes to recompute, by step.
  std::map<std::pair<runtime::step_id, check_key>, messages::check_pass> to_check_;
  /// `awaited_`: requested batches that have not arrived. `asked_ahead_`: all batches requested for
  /// a step that has not begun.
  std::map<messages::pass_id, messages::request_batch> awaited_, asked_ahead_;
  /// Failed requests of `asked_ahead_`; repeated in their step.
  std::set<messages::pass_id> failed_ahead_;
  std::vector<runtime::ticket> snapshot_;  ///< tickets of this rank's newest snapshot
  std::uint64_t snapshot_attempt_ = 0;     ///< save attempt of `snapshot_`
  bool stands_ = false;                    ///< the worker is built
  /// Tickets given to the keeper for the newest two states.
  std::vector<runtime::ticket> given_, given_before_;
  /// The keeper has refused the state of this step once.
  std::optional<runtime::step_id> refused_;
  std::optional<messages::state_of_rank> fetched_;  ///< initial state from a keeper
  std::uint64_t asked_ns_ = 0;                      ///< time of the first request to the keeper
  std::optional<progress> now_;
  runtime::step_id step_ = {};   ///< newest step that has begun
  runtime::step_id voted_ = {};  ///< newest training step with our vote
  std::uint64_t submitted_ = 0;
  int passed_over_ = 0;  ///< times that the behaviour was overridden
  /// Longest timed action that the stream has passed; with a behaviour all actions are timed.
  double longest_ms_ = 0;
  std::map<std::uint64_t, std::function<void()>> after_;
  std::map<handoff_key, handoffs> handed_on_;
  std::map<std::uint64_t, runtime::action> lent_;  ///< lent credits, by number
  std::shared_ptr<void> held_;                     ///< released after the lanes have ended
  std::shared_ptr<stage_context> context_;
  // Destroyed first. The communication lane transfers gradients while the lane computes; the saver
  // reads snapshots from a device. `lane_` is destroyed before both: its work may submit to them or
  // wait for them.
  std::unique_ptr<runtime::lane> saver_, communication_lane_;
  std::unique_ptr<runtime::lane> lane_;
  std::shared_ptr<runtime::lane_board::place> place_;  ///< last: reads the members above
};

messages::stage_actor::behavior_type stage(
    messages::stage_actor::stateful_pointer<stage_state> self,
    messages::spawn_stage told,
    std::shared_ptr<const opened_job> job,
    std::shared_ptr<const stage_resources> node,
    std::shared_ptr<group_registry> groups);

}  // namespace troupe::actors
