// The replica: represents its stages as one to the supervisor.
//
// It spawns its stages, introduces them to each other, passes requests down and merges reports. It
// ends when one of its stages ends.

#pragma once

#include "actors/host/shared_resources.hpp"
#include "messages/protocol/actors.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace troupe::actors {

class replica_state {
 public:
  static constexpr const char* name = "replica";

  explicit replica_state(messages::replica_actor::pointer self) : self_(self) {}

  void start(messages::spawn_replica told, std::shared_ptr<const shared_resources> context);
  void receive(const messages::group_opened& x);
  void receive(const messages::run_step& x);
  void receive(const messages::decision& x);
  void receive(const messages::take_snapshot& x);
  void receive(const messages::drop_snapshot& x);
  void receive(const messages::use_loader& x);
  void receive(const messages::use_keeper& x);
  void receive(const messages::use_checkpointer& x);
  void receive(const messages::ready& x);
  void receive(const messages::vote& x);
  void receive(const messages::applied& x);
  void receive(const messages::check_pass& x);
  const std::shared_ptr<runtime::lane_board::place>& place() const { return place_; }
  const std::shared_ptr<const message_path>& path() const { return context_->messages; }

 private:
  /// Stages have the indices of seats::replica.
  int stages() const { return int(ranks_.size()); }
  bool is_here(int rank) const {
    return job_->seats.at(rank)[runtime::axis::data] == told_.replica;
  }
  /// The process that hosts a stage.
  int process_of(int stage_index) const;
  /// Null: it hosts none of the stages.
  messages::hosting_process* find_process(int process);
  const messages::hosting_process& host_of(int stage_index);
  template <class Order>
  void pass_down(const Order& x);
  /// Passes the order to the stages in that process that were already introduced.
  template <class Order>
  void pass_to_process(const Order& x);
  void add(int stage_index, const messages::stage_actor& stage);
  void refuse(const caf::error& why);
  void introduce();
  void tell_members(const messages::group_opened& x);
  void lose(const caf::down_msg& x);
  /// Reports to the failure detector what it waits for.
  runtime::lane_board::place::waiting waits_for() const;

  messages::replica_actor::pointer self_;
  std::string who_;
  messages::spawn_replica told_;
  std::shared_ptr<const opened_job> job_;
  std::vector<int> ranks_;  ///< of its stages
  std::shared_ptr<const shared_resources> context_;
  std::vector<messages::stage_actor> stages_;
  int spawned_ = 0;
  std::vector<messages::group_opened> opened_;  ///< came before all stages were spawned
  std::vector<messages::ready> ready_;
  std::map<int, messages::vote> votes_;  ///< by rank
  std::map<int, messages::applied> applied_;
  /// The newest request to the stages.
  enum class awaited : std::uint8_t { nothing, ready, votes, applied } awaits_ = awaited::ready;
  runtime::step_id step_ = {};
  bool lists_checks_ = false;                          ///< of the running step
  std::shared_ptr<runtime::lane_board::place> place_;  ///< last member: it reads the others
};

messages::replica_actor::behavior_type replica(
    messages::replica_actor::stateful_pointer<replica_state> self,
    messages::spawn_replica told,
    std::shared_ptr<const shared_resources> context);

}  // namespace troupe::actors
