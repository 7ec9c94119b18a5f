// What the workers of one process find each other by, and what of them outlives them.

#pragma once

#include "messages/protocol/handles.hpp"
#include "runtime/collective/local/local_group.hpp"
#include "runtime/collective/nccl_group.hpp"
#include "runtime/core/cancel.hpp"
#include "runtime/device/memory_pool.hpp"
#include "runtime/trainer/job.hpp"
#include "runtime/trainer/rank_estate.hpp"

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
  /// That of the rank's earlier lane, whose blocks its state may lie in; else a new one.
  runtime::memory_pool of(int rank) const;
  /// Largest use of each so far, in bytes, by rank.
  std::map<int, std::size_t> peaks() const;

 private:
  mutable std::mutex mutex_;
  std::map<int, runtime::memory_pool> pools_;
};

/// What of each rank outlives its actors and lanes. Any thread.
class estate_registry {
 public:
  /// Of this rank: a blank one when it has none.
  std::shared_ptr<runtime::rank_estate> of(int rank);
  /// A blank one in the place of the rank's, for a worker that is filled from elsewhere.
  std::shared_ptr<runtime::rank_estate> renewed(int rank);
  /// This one in the place of the rank's: a state that came from elsewhere.
  std::shared_ptr<runtime::rank_estate> replaced(int rank,
                                                 std::shared_ptr<runtime::rank_estate> by);
  /// What the next worker of the rank is to use, with the state of that iteration the newest: the
  /// rank's, or a copy where an old lane may still write to that.
  std::shared_ptr<runtime::rank_estate> gone_back(int rank,
                                                  std::uint64_t iteration,
                                                  runtime::stream& by);
  /// The steps whose state all ranks have here; nothing: some rank has none, or there is none.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> common() const;  ///< oldest, newest
  /// That have, or had, a worker here.
  int ranks() const;
  /// An old lane, which was left behind, may still write to what the rank has.
  void leave_behind(int rank);

 private:
  mutable std::mutex mutex_;
  std::map<int, std::shared_ptr<runtime::rank_estate>> estates_;
  std::set<int> left_behind_;
};

/// Who of which generation is at work in this process: lanes, and actors whose successors need
/// what they hold. Any thread.
class living_registry {
 public:
  struct member {
    runtime::generation_id generation = {};
    std::string who;
    int rank = -1;         ///< of a lane
    bool service = false;  ///< of all generations of an epoch
  };

  /// It lives until the returned handle dies.
  [[nodiscard]] std::shared_ptr<void> enter(member x);
  /// Those of this generation and older ones.
  std::vector<member> until(runtime::generation_id last) const;
  /// Called whenever somebody has left, on the thread that left. Replaces the one before; `whose`
  /// takes it back.
  void on_leave(const void* whose, std::function<void()> tell);
  void no_longer_tells(const void* whose);  ///< unless another has replaced it

 private:
  struct state;
  std::shared_ptr<state> state_ = make_state();
  static std::shared_ptr<state> make_state();
};

/// The viewers of a job, by the names under which it knows them. Any thread.
class viewer_registry {
 public:
  void add(const std::string& name, messages::viewer_actor viewer);
  std::optional<messages::viewer_actor> find(const std::string& name) const;
  std::vector<messages::viewer_actor> take();  ///< all; none is left

 private:
  mutable std::mutex mutex_;
  std::map<std::string, messages::viewer_actor> all_;
};

/// Where the workers of several simulated processes meet in one. Any thread.
class group_meeting {
 public:
  /// The group of that name and generation; the first caller makes it.
  std::shared_ptr<runtime::local_group> at(std::uint64_t generation,
                                           const std::string& name,
                                           runtime::axis along,
                                           int size);

 private:
  std::mutex mutex_;
  std::map<std::pair<std::uint64_t, std::string>, std::shared_ptr<runtime::local_group>> groups_;
};

/// A rank's place in a group.
struct group_place {
  std::string name = {};  ///< of one generation no two groups have the same
  runtime::axis along = runtime::axis::data;
  std::vector<int> members = {};  ///< ranks of the mesh, in the order of the group
  int rank = 0;                   ///< among them
  int device = 0;                 ///< where it computes
  /// Who each is on the board of its process (runtime/device/lane_board.hpp), for those who wait
  /// for it.
  std::vector<std::string> names = {};
};

/// The groups of one generation. Any thread.
class group_registry {
 public:
  /// The end of a rank in a group some of whose members live in other processes; null: all live
  /// here.
  using join_between_processes = std::function<std::unique_ptr<runtime::communicator>(
      const group_place& x, std::uint64_t generation, const runtime::cancel_token& until)>;

  /// With a meeting its groups are those of all who meet there, and this token releases but the
  /// ranks that join here.
  explicit group_registry(runtime::cancel_token token,
                          std::uint64_t generation = 0,
                          runtime::collectives by = runtime::collectives::local,
                          std::shared_ptr<group_meeting> meeting = {},
                          join_between_processes between = {});

  /// The end of a rank in a group; the first caller makes the group. Each rank joins once, all with
  /// the same axis and members.
  std::unique_ptr<runtime::communicator> join(const group_place& x);

  const runtime::cancel_token& token() const { return token_; }

 private:
  runtime::cancel_token token_;
  std::uint64_t generation_;
  std::shared_ptr<group_meeting> meeting_;
  join_between_processes between_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<runtime::local_group>> groups_;
  std::unique_ptr<runtime::nccl_groups> by_nccl_;  ///< null: they read each other's memory
};

}  // namespace troupe::actors
