// The supervisor: the root of a job.
//
// It has the others spawned, drives the steps, decides when everybody has voted, says `committed`
// when everybody has applied, has checkpoints written, and ends the job: in order when it is done,
// with the reason when anybody dies.

#pragma once

#include "actors/job/viewer.hpp"
#include "actors/node/resources.hpp"
#include "actors/supervisor/save_schedule.hpp"
#include "messages/protocol/actors.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace troupe::actors {

/// The way to ask this supervisor for an early end; does not keep it alive.
drain_request drain_by(const messages::supervisor_actor& head);

class supervisor_state {
 public:
  static constexpr const char* name = "supervisor";

  explicit supervisor_state(messages::supervisor_actor::pointer self) : self_(self) {}
  ~supervisor_state();

  void start(messages::node_actor node,
             std::shared_ptr<const resources> shared,
             const std::vector<make_viewer>& viewers);
  void receive(const messages::ready& x);
  void receive(const messages::vote& x);
  void receive(const messages::applied& x);
  void receive(const messages::saved& x);
  void receive(const messages::save_failed& x);
  void receive(const messages::save_again& x);
  void drain(const messages::drain& x);

 private:
  void ask_for(messages::role who, int replica);
  void spawned(messages::role who, const caf::actor& actor);
  void lose(const caf::down_msg& x);
  void begin_when_ready();

  /// What comes after a step, or after whatever came after it.
  void proceed();
  bool validation_is_due() const;
  bool is_over() const;
  void begin_step();
  bool is_timed(std::uint64_t step) const;
  void begin_validation();
  void begin_validation_round();
  void begin_save();
  void decide();
  runtime::step_result take_votes();
  void take_executed();
  void end_validation_round();
  void commit();
  void report_step();
  void finish();
  void say_when(const std::string& why) const;

  template <class Order>
  void tell_replicas(const Order& x) {
    for (const auto& replica : replicas_)
      shared_->faults->send(self_, replica, x);
  }

  template <class Fact>
  void tell_watchers(const Fact& x) {
    self_->send(monitor_, x);
    for (const auto& viewer : viewers_)
      self_->send(viewer, x);
  }

  messages::supervisor_actor::pointer self_;
  messages::node_actor node_;
  std::shared_ptr<const resources> shared_;
  runtime::generation_id generation_{1};

  struct person {
    std::string name;
    caf::actor actor;
  };
  std::vector<person> people_;  ///< everybody whose death ends the job
  std::vector<messages::replica_actor> replicas_;
  messages::monitor_actor monitor_;
  std::vector<messages::viewer_actor> viewers_;
  messages::checkpointer_actor checkpointer_;
  int expected_ = 0;  ///< spawned actors that have not answered yet
  int ready_ = 0;     ///< replicas that stand

  runtime::training_position at_;  ///< the newest committed step
  std::optional<messages::run_step> now_;
  std::uint64_t began_ns_ = 0;
  runtime::step_report report_;
  runtime::digest state_ = {};  ///< after the newest step of this run
  bool decided_ = false;        ///< everybody has voted for the step that is running
  std::vector<messages::vote> votes_;
  std::vector<messages::executed_row> executed_;  ///< of the step that is running
  std::vector<messages::applied> applied_;
  std::uint64_t validated_ = 0;  ///< the iteration after which validation last ran
  runtime::loss_value validation_;
  std::uint64_t validation_consumed_ = 0;  ///< samples of the validation set before the next round
  std::int64_t validation_microbatches_ = 0;  ///< of each replica that are still to come
  save_schedule saves_;
  bool waits_to_save_ = false;  ///< until save_again
  std::string unsaved_;         ///< why the newest save failed; empty: it did not
  bool draining_ = false;
  std::string diagnosis_;  ///< why the run ends early, with an error; empty: it does not
  bool concluding_ = false, dismissed_ = false;
};

messages::supervisor_actor::behavior_type supervisor(
    messages::supervisor_actor::stateful_pointer<supervisor_state> self,
    messages::node_actor node,
    std::shared_ptr<const resources> shared,
    const std::vector<make_viewer>& viewers);

}  // namespace troupe::actors
