// The supervisor: the root of a job.
//
// It has the others spawned, drives the steps, decides when everybody has voted, says `committed`
// when everybody has applied, has checkpoints written, and ends the job: in order when it is done,
// with the reason when anybody dies.

#pragma once

#include "actors/node/context.hpp"
#include "actors/supervisor/save_schedule.hpp"
#include "messages/protocol/actors.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace troupe::actors {

class supervisor_state {
 public:
  static constexpr const char* name = "supervisor";

  explicit supervisor_state(messages::supervisor_actor::pointer self) : self_(self) {}
  ~supervisor_state();

  void start(messages::node_actor node,
             messages::job_description told,
             std::shared_ptr<const node_context> context);
  void receive(const messages::ready& x);
  void receive(const messages::vote& x);
  void receive(const messages::applied& x);
  void receive(const messages::saved& x);
  void receive(const messages::save_failed& x);
  void receive(const messages::save_again& x);
  void drain(const messages::drain& x);

 private:
  /// Asks the node; `keep` takes the answer, and the new actor is watched under that name.
  template <class Answer, class Request, class Keep>
  void spawn(Request what, const char* called, Keep keep);
  void spawn_viewers();
  void spawn_replicas();
  template <class Handle>
  void watch(const char* called, const Handle& actor);
  void refuse(const caf::error& reason);
  void lose(const caf::down_msg& x);
  void begin_when_ready();

  /// What comes after a step, a validation or a save.
  void proceed();
  bool validation_is_due() const;
  bool test_is_due() const;
  bool is_over() const;
  bool is_at_end() const;  ///< of the training
  void begin_step();
  bool is_timed(std::uint64_t step) const;
  void begin_validation();
  void begin_test();
  void begin_evaluation(std::uint64_t consumed, bool test);
  void begin_evaluation_round();
  int snapshot_parts() const;
  void begin_save();
  void decide();
  runtime::step_result take_votes();
  void take_executed();
  void end_evaluation_round();
  void commit();
  void report_step();
  void finish();
  void say_when(const std::string& why) const;
  void look_at_clock();

  template <class Order>
  void tell_replicas(const Order& x) {
    for (const auto& replica : replicas_)
      context_->messages->send(self_, replica, x);
  }

  template <class Fact>
  void tell_watchers(const Fact& x) {
    context_->messages->send_at_once(self_, monitor_, x);
    for (const auto& viewer : viewers_)
      context_->messages->send_at_once(self_, viewer, x);
  }

  messages::supervisor_actor::pointer self_;
  messages::node_actor node_;
  messages::job_description told_;
  std::shared_ptr<const opened_job> job_;
  std::shared_ptr<const node_context> context_;
  runtime::generation_id generation_{1};

  struct watched_actor {
    std::string name;
    caf::actor_addr address;
  };
  std::vector<watched_actor> watched_;  ///< those whose death ends the job
  std::vector<messages::replica_actor> replicas_;
  messages::monitor_actor monitor_;
  std::vector<messages::viewer_actor> viewers_;
  messages::loader_actor loader_;
  messages::checkpointer_actor checkpointer_;
  int expected_ = 0;    ///< spawned actors that have not answered yet
  int ready_ = 0;       ///< replicas that stand
  bool begun_ = false;  ///< everybody is there

  runtime::training_position at_;  ///< the newest committed step
  std::optional<messages::run_step> now_;
  std::chrono::steady_clock::time_point began_at_;  ///< the step that is running
  runtime::step_report report_;
  runtime::digest state_ = {};  ///< after the newest step of this run
  bool decided_ = false;        ///< everybody has voted for the step that is running
  std::vector<messages::vote> votes_;
  std::vector<messages::executed_row> executed_;  ///< of the step that is running
  std::vector<messages::applied> applied_;
  std::optional<std::uint64_t> validated_;  ///< the iteration after which validation last ran
  bool tested_ = false;
  struct {
    bool test = false;  ///< of the test set, else of the validation set
    runtime::loss_value loss = {};
    std::uint64_t consumed = 0;     ///< samples of the set before the next round
    std::int64_t microbatches = 0;  ///< of each replica that are still to come
  } evaluation_;
  save_schedule saves_;
  bool waits_to_save_ = false;  ///< until save_again
  std::string unsaved_;         ///< why the newest save failed; empty: it did not
  bool draining_ = false;
  bool time_is_up_ = false;  ///< `exit_minutes` have passed
  std::string diagnosis_;    ///< why the run ends early, with an error; empty: it does not
  bool concluding_ = false, shut_down_ = false;
};

messages::supervisor_actor::behavior_type supervisor(
    messages::supervisor_actor::stateful_pointer<supervisor_state> self,
    messages::node_actor node,
    messages::job_description told,
    std::shared_ptr<const node_context> context);

}  // namespace troupe::actors
