// Per-process registries of workers: how they find each other, and the state that outlives them.

#pragma once

#include "messages/protocol/handles.hpp"
#include "runtime/collective/local/local_group.hpp"
#include "runtime/collective/nccl_group.hpp"
#include "runtime/core/cancel.hpp"
#include "runtime/device/memory_pool.hpp"
#include "runtime/job/job.hpp"
#include "runtime/state/rank_estate.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe::actors {

/// The memory pools of the workers of this process. Any thread.
class pool_registry {
 public:
  void add(int rank, runtime::memory_pool pool);
  /// The pool of the rank's earlier lane, since its blocks may hold the rank's state; else a new
  /// one.
  runtime::memory_pool of(int rank) const;
  /// Peak use of each pool in bytes, by rank.
  std::map<int, std::size_t> peaks() const;
  struct bytes {
    std::size_t in_use = 0, idle = 0;
  };
  bytes held() const;  ///< total of all pools, now

 private:
  mutable std::mutex mutex_;
  std::map<int, runtime::memory_pool> pools_;
};

/// State of each rank that outlives its actors and lanes. Any thread.
class estate_registry {
 public:
  /// The rank's estate; creates a blank one on first use.
  std::shared_ptr<runtime::rank_estate> of(int rank);
  /// Replaces the rank's estate by a blank one, for a worker that gets its state from elsewhere.
  std::shared_ptr<runtime::rank_estate> renewed(int rank);
  /// Replaces the rank's estate by a state from elsewhere.
  std::shared_ptr<runtime::rank_estate> replaced(int rank,
                                                 std::shared_ptr<runtime::rank_estate> by);
  /// Estate for the rank's next worker, rolled back so that `iteration` is the newest state.
  /// Returns a copy if an old lane may still write to the original.
  std::shared_ptr<runtime::rank_estate> gone_back(int rank,
                                                  std::uint64_t iteration,
                                                  runtime::stream& by);
  /// The oldest and the newest step for which every rank here has a state; empty if there is none.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> common() const;
  /// Number of ranks that have, or had, a worker here.
  int ranks() const;
  runtime::rank_estate::extents bytes() const;  ///< total of all estates
  /// Marks the rank's estate as still writable by an old lane that was left behind.
  void leave_behind(int rank);

 private:
  mutable std::mutex mutex_;
  std::map<int, std::shared_ptr<runtime::rank_estate>> estates_;
  std::set<int> left_behind_;
};

/// Members at work in this process, by generation: lanes, and actors that hold resources which
/// their successors need. Any thread.
class living_registry {
 public:
  struct member {
    runtime::generation_id generation = {};
    std::string who;
    int rank = -1;         ///< of a lane; else -1
    bool service = false;  ///< serves all generations of an epoch
  };

  /// Registers a member until the returned handle is destroyed.
  [[nodiscard]] std::shared_ptr<void> enter(member x);
  /// Members of this generation and older ones.
  std::vector<member> until(runtime::generation_id last) const;
  /// Sets the callback that runs after a member has left, on that member's thread. Replaces the
  /// previous callback; `whose` is the key to remove it.
  void on_leave(const void* whose, std::function<void()> tell);
  void no_longer_tells(const void* whose);  ///< no effect if another caller has replaced it

 private:
  struct state;
  std::shared_ptr<state> state_ = make_state();
  static std::shared_ptr<state> make_state();
};

/// The viewers of a job, by name. Any thread.
class viewer_registry {
 public:
  void add(const std::string& name, messages::viewer_actor viewer);
  std::optional<messages::viewer_actor> find(const std::string& name) const;
  std::vector<messages::viewer_actor> take();  ///< removes and returns all

 private:
  mutable std::mutex mutex_;
  std::map<std::string, messages::viewer_actor> all_;
};

/// Shared groups for the workers of several simulated processes. Any thread.
class group_meeting {
 public:
  /// The group of that name and generation; created by the first caller.
  std::shared_ptr<runtime::local_group> at(std::uint64_t generation,
                                           const std::string& name,
                                           runtime::axis_set along,
                                           int size);

 private:
  std::mutex mutex_;
  std::map<std::pair<std::uint64_t, std::string>, std::shared_ptr<runtime::local_group>> groups_;
};

/// A rank's place in a group.
struct group_place {
  std::string name = {};  ///< unique within a generation
  runtime::axis_set along = runtime::axis::data;
  std::vector<int> members = {};    ///< ranks of the mesh, in the order of the group
  int rank = 0;                     ///< index in `members`
  int device = 0;                   ///< device that it computes on
  std::vector<int> processes = {};  ///< of each member
  bool beside = false;              ///< its communication lane uses the group
  /// The name of a rank on its process's lane board (runtime/device/lane_board.hpp), shown by
  /// members that wait for it. Called only when needed: groups have up to as many members as ranks.
  std::function<std::string(int rank)> name_of = {};

  std::vector<std::string> names() const;  ///< of all members; empty without `name_of`
};

/// The groups of one generation. Any thread.
class group_registry {
 public:
  /// Makes a rank's communicator in a group that spans processes. Returns null if all members live
  /// here.
  using join_between_processes = std::function<std::unique_ptr<runtime::communicator>(
      const group_place& x, std::uint64_t generation, const runtime::cancel_token& until)>;

  /// With a meeting, the groups are shared with all of its processes; then `token` releases only
  /// the ranks that join here.
  explicit group_registry(runtime::cancel_token token,
                          std::uint64_t generation = 0,
                          runtime::collectives by = runtime::collectives::local,
                          std::shared_ptr<group_meeting> meeting = {},
                          join_between_processes between = {});

  /// A rank's communicator in a group; the first caller creates the group. Each rank joins once,
  /// all with the same axis and members.
  std::unique_ptr<runtime::communicator> join(const group_place& x);

  /// A group that NCCL serves between processes is joined by an id. Empty if it needs none from
  /// this rank: another one is its first, it is in one process, or NCCL does not serve it.
  std::optional<runtime::nccl_id> id_for_others(const group_place& x);
  /// The id of such a group has come.
  void give(const std::string& group, const runtime::nccl_id& id);
  /// Ends the waits in groups of NCCL with ranks in that process; `neighbours` ends the others.
  void lose(int process, const std::string& why);

  const runtime::cancel_token& token() const { return token_; }

 private:
  runtime::cancel_token token_;
  std::uint64_t generation_;
  std::shared_ptr<group_meeting> meeting_;
  join_between_processes between_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<runtime::local_group>> groups_;
  std::unique_ptr<runtime::nccl_groups> by_nccl_;  ///< null: members read each other's memory
};

}  // namespace troupe::actors
