// The actors and processes of a run: connected, spawned, watched, replaced, and told of each other.
//
//   PROCESS-2  The ranks of a generation are spawned when each process is connected with its
//              neighbours (runtime/job/job_neighbours.hpp).

#pragma once

#include "actors/supervisor/supervised_run.hpp"
#include "actors/support/all_by_now.hpp"
#include "runtime/job/job_neighbours.hpp"
#include "runtime/layout/process_tree.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe::actors {

class roster : supervisor_part {
 public:
  /// A process that hosts ranks, and its services.
  struct hosting {
    messages::node_actor node;
    messages::connector_actor connector;  ///< none: it needs no connections
    messages::process_address where;
    runtime::generation_id connected_in = {};  ///< the newest in which all neighbours were reached
    std::string host;
    std::string domain;          ///< failure domain of the host; empty: the host alone
    int kept_in = home_process;  ///< process of the keeper of their states
    messages::loader_actor loader, told_loader;  ///< the one that the ranks know
    messages::keeper_actor keeper, told_keeper;
    bool is_keeper_new = false;           ///< replaced a dead one and has not reported yet
    messages::keeper_actor told_holder;   ///< of its ranks' initial state
    messages::shard_writer_actor writer;  ///< none: no writer is needed, or it is dead
  };
  struct watched_actor {
    residence where;
    runtime::generation_id generation;
  };

  explicit roster(supervisor_parts& all)
      : supervisor_part(all), processes_(std::size_t(run_.processes())) {
    for (int r = 0; r < run_.job->replicas(); ++r)
      homes_.push_back(run_.process_of(r, 0));
    std::ranges::sort(homes_);
  }

  /// Connects the processes and spawns missing services, then the ranks.
  void form(const order_form& x);
  const std::optional<order_form>& forming() const { return forming_; }
  void forget_ranks();
  void replace(const order_replace& x);
  void forgo_monitor();
  void join(const messages::process_started& x);
  void receive(const messages::group_opened& x);
  /// Also forgets the actors that lived there.
  void forget_process(int process);
  void end_processes();

  const std::vector<hosting>& processes() const { return processes_; }
  const hosting& process(int x) const { return processes_[std::size_t(x)]; }
  const messages::node_actor& node_in(int process) const {
    return process == home_process ? run_.node : processes_[std::size_t(process)].node;
  }
  /// The replicas; with several processes the nodes at the top of the tree that lead to replicas.
  struct member_below {
    messages::order_actor actor;
    std::pair<int, int> reporter;  ///< as vote::reporter
  };
  std::vector<member_below> below() const;
  /// Those at the top of the tree; with one process, its node.
  std::vector<messages::node_actor> top_nodes() const;
  std::size_t reporters() const { return below().size(); }
  /// Null: it is not there.
  messages::replica_actor replica(int x) const {
    return std::size_t(x) < replicas_.size() ? replicas_[std::size_t(x)]
                                             : messages::replica_actor();
  }
  const messages::monitor_actor& monitor() const { return monitor_; }
  const messages::checkpointer_actor& checkpointer() const { return checkpointer_; }
  const std::vector<messages::viewer_actor>& viewers() const { return viewers_; }
  bool can_save() const;                            ///< all writers are there
  std::string name_and_host_of(int process) const;  ///< "process 1 (host 'a')"
  std::optional<int> process_of_node(const caf::actor_addr& x) const;

  /// Number of requests to connect or spawn without an answer.
  std::size_t pending_answers() const { return pending_spawns_.size() + connecting_.size(); }
  bool owes_answer(int process) const;
  std::optional<watched_actor> watched(const caf::actor_addr& x) const;
  void forget(const caf::actor_addr& x);

  void keeper_reports(int process) { processes_[std::size_t(process)].is_keeper_new = false; }
  void tell_of_services();
  void tell_of_shard_writer(int process);
  void tell(const runtime::run_event& x);
  /// Tells all replicas.
  template <class Order>
  void tell_replicas(const Order& x) {
    for (const auto& one : below())
      if (one.actor)
        run_.send(one.actor, x);
  }
  template <class Fact>
  void tell_watchers(const Fact& x) {
    if (monitor_)
      run_.send_at_once(monitor_, x);
    for (const auto& viewer : viewers_)
      run_.send_at_once(viewer, x);
  }

 private:
  void connect_processes();  // connecting.cpp
  std::vector<std::pair<int, int>> other_pairs() const;
  void settle_keepers();
  void tell_keepers(const std::vector<int>& before) const;
  void show_keepers(const std::vector<int>& of) const;
  void tell_monitor_of_processes();
  void spawn_services();
  bool is_served() const;
  void spawn_ranks_if_served();
  void tell_of_services(const messages::replica_actor& to,
                        const std::vector<messages::hosting_process>& known) const;
  void spawn_monitor();
  void spawn_loader(int process);
  void spawn_keeper(int process);
  void spawn_checkpointer();
  void spawn_shard_writer(int process);
  void spawn_viewers();
  void spawn_replicas();
  void tell_branches() const;
  /// Number of replicas in that process and in all below it.
  int replicas_below(int process) const;
  /// Returns the processes of a replica's ranks.
  std::vector<messages::hosting_process> hosting_processes(int replica) const;
  /// Sends it to the replicas with ranks in that process.
  template <class Order>
  void tell_replicas_in(int process, const Order& x) {
    std::set<int> them;
    for (const int rank : run_.job->placed.ranks_of(process))
      them.insert(run_.job->seats.at(rank)[runtime::axis::data]);
    for (const int r : them)
      if (const auto to = replica(r))
        run_.send(to, x);
  }
  /// The keeper in that process, for its memory and its host's disk; null: being spawned.
  messages::keeper_actor keeper_in(int process) const;
  /// The process of the keeper with the initial state of a process's ranks; empty: the ranks have
  /// it themselves, or it comes from elsewhere.
  std::optional<int> holding_process(int process) const;
  messages::keeper_actor holder_for(int process) const;
  /// Each process writes its ranks' parts of a checkpoint.
  bool writes_apart() const {
    return run_.processes() > 1 && !run_.job->job.checkpoints.save.empty();
  }
  /// Sends a request to the node of that process; `keep` takes the answer, and the new actor is
  /// watched.
  template <class Answer, class Request, class Keep>
  void spawn(Request what, residence where, Keep keep);
  template <class Handle>
  void watch(residence where, const Handle& actor);
  /// With several processes, a service's name has the number of its process.
  std::string name_of_service(const char* what, int process) const;

  std::vector<hosting> processes_;
  std::map<caf::actor_addr, int> process_of_node_;
  all_by_now all_here_, all_served_;
  std::map<caf::actor_addr, watched_actor> watched_;
  std::vector<messages::replica_actor> replicas_;  ///< empty: no generation is formed
  runtime::process_tree tree_{run_.processes()};
  std::vector<int> homes_;                                     ///< of the replicas, ascending
  std::map<int, std::vector<messages::group_opened>> opened_;  ///< for replicas that come later
  messages::monitor_actor monitor_;
  bool without_monitor_ = false;  ///< it died too often
  std::vector<messages::viewer_actor> viewers_;
  messages::checkpointer_actor checkpointer_;
  messages::checkpointer_actor told_checkpointer_;  ///< the one that the ranks know
  std::optional<order_form> forming_;
  bool ranks_asked_for_ = false;
  runtime::process_neighbours neighbours_;  ///< of the layout; empty: not found yet
  std::set<int> connecting_;                ///< processes that have not answered connect_to
  struct {
    runtime::generation_id generation = {};
    std::vector<std::pair<int, int>> others = {};      ///< as other_pairs
    std::vector<messages::process_name> who = {};      ///< by place
  } connected_;                                        ///< the newest orders to connect
  std::map<std::uint64_t, residence> pending_spawns_;  ///< by number
  std::uint64_t asked_ = 0;
};

}  // namespace troupe::actors
