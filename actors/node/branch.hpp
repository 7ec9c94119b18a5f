// A node's part as a branch of the tree of processes: passes orders down, and merged reports up.
//
// Below it are the replicas of its process and the nodes of its children
// (runtime/layout/process_tree.hpp). It belongs to one generation. Its death is that of its
// process.
//
//   BRANCH-1  A branch hears of a step once from each replica and branch below, and once that each
//             replica stands.

#pragma once

#include "actors/host/merged_reports.hpp"
#include "actors/support/message_path.hpp"
#include "messages/protocol/actors.hpp"
#include "runtime/device/lane_board.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::actors {

class branch {
 public:
  explicit branch(messages::node_actor::pointer self) : self_(self) {}

  /// Takes a place in a new generation; then handles what came early for it.
  void begin(const messages::use_branches& x,
             std::shared_ptr<const opened_job> job,
             std::shared_ptr<const message_path> path);
  /// A replica of this process.
  void add(runtime::generation_id generation, int replica, const messages::replica_actor& x);

  template <class Order>
  void receive(const Order& x) {
    if (!is_now(x))
      return;
    note(x);
    for (const auto& [number, replica] : replicas_)
      path_->send(self_, replica, x);
    for (const auto& other : told_.below)
      if (other.has_replicas)
        path_->send(self_, other.node, x);
  }
  /// Passes it on to the branches below, also where no replicas are.
  void receive(const messages::all_restored& x);
  void receive(const messages::ready& x);
  void receive(const messages::vote& x);
  void receive(const messages::applied& x);
  void receive(const messages::kept& x);

  /// Names the replicas, branches and keeper that have not reported.
  runtime::lane_board::place::waiting waits_for() const;

 private:
  /// False: it is of an ended generation, or came early. Messages of different senders may overtake
  /// the order to take a place.
  template <class Message>
  bool is_now(const Message& x) {
    if (x.generation > told_.generation)
      early_.push_back([this, x] { receive(x); });
    return x.generation == told_.generation && path_;
  }
  template <class Order>
  void note(const Order&) {}
  void note(const messages::run_step& x);
  void note(const messages::decision& x);
  std::size_t reporters() const;
  std::vector<std::string> without(const std::function<bool(std::pair<int, int>)>& has) const;

  messages::node_actor::pointer self_;
  messages::use_branches told_;
  std::shared_ptr<const opened_job> job_;
  std::shared_ptr<const message_path> path_;  ///< null: in no tree
  std::map<int, messages::replica_actor> replicas_;
  messages::ready ready_;
  merged_reports<messages::vote> votes_;
  merged_reports<messages::applied> applied_;
  enum class awaited : std::uint8_t { nothing, votes, applied } awaits_ = awaited::nothing;
  runtime::step_id step_ = {};
  /// The newest report of each branch below, and of the own keeper (-1).
  std::map<int, messages::kept> kept_;
  std::optional<runtime::step_id> told_kept_;  ///< the newest step that was reported up
  std::vector<std::function<void()>> early_;
};

}  // namespace troupe::actors
