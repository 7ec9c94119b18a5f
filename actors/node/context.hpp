// What belongs to a process: its node holds it, and hands it to the actors that it hosts. Nothing
// of it travels; what an actor is told of its job comes in the message that spawns it.

#pragma once

#include "actors/job/opened_job.hpp"
#include "actors/job/viewer.hpp"
#include "actors/node/environment.hpp"
#include "actors/node/holdings.hpp"
#include "actors/node/registries.hpp"
#include "actors/support/message_path.hpp"
#include "runtime/data/batch_source.hpp"
#include "runtime/device/lane_board.hpp"
#include "runtime/device/lane_reaper.hpp"
#include "runtime/telemetry/operation_profile.hpp"
#include "runtime/telemetry/trace.hpp"
#include "runtime/trainer/kept_states.hpp"
#include "runtime/trainer/local_states.hpp"
#include "runtime/trainer/step_ledger.hpp"
#include "runtime/trainer/worker.hpp"
#include "runtime/transport/transport.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace troupe::runtime {
class save_lock;
}

namespace troupe::actors {

class fault_injector;
class monitor_book;
class neighbours;

/// Times the suspicion: of who reads or writes what a disk has, and cannot tell meanwhile how far
/// it has come.
inline constexpr double patience_with_disks = 4;

/// What the logs of a run have that goes on in another process than it began in.
struct written_so_far {
  std::uint64_t fact = 0;       ///< the newest of the ledger's that each of them has
  std::uint64_t iteration = 0;  ///< they end with that one
  std::uint64_t consumed = 0;   ///< samples, the same
};

/// Filled before the node is spawned, and from then on immutable or safe for any thread; but the
/// book, which one monitor after the other uses.
struct node_context {
  std::shared_ptr<runtime::transport> transport = {};
  /// On the clock of the actor system, which is the only one that an actor asks.
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
  std::shared_ptr<const runtime::batch_source> training = {}, validation = {}, test = {};
  runtime::memory_pool pool = {};  ///< of micro-batches
  std::shared_ptr<pool_registry> pools = std::make_shared<pool_registry>();
  environment env = {};
  /// The loader, the keeper, the checkpointer and the monitor block: they have threads of their
  /// own, but not in tests that drive one actor alone.
  bool own_threads = true;
  /// Of whoever recovers, lanes, node and supervisor say what they are at, and are looked at now
  /// and then; lanes that have ended are joined beside actors. Not in tests that drive one actor
  /// alone.
  bool watches_lanes = true;

  std::shared_ptr<runtime::trace_recorder> trace = {};       ///< null: nobody watches
  std::shared_ptr<runtime::operation_profile> profile = {};  ///< null: nobody asked

  // What outlives actors: the next of their name go on with it.
  std::shared_ptr<runtime::step_ledger> ledger = std::make_shared<runtime::step_ledger>();
  std::shared_ptr<estate_registry> estates = std::make_shared<estate_registry>();
  /// The states of another process's ranks.
  std::shared_ptr<runtime::kept_states> kept = std::make_shared<runtime::kept_states>();
  /// Those that a keeper here has written to a disk of this host; null: nobody asked for it.
  std::shared_ptr<runtime::local_states> stored = {};
  std::shared_ptr<living_registry> living = std::make_shared<living_registry>();
  std::shared_ptr<viewer_registry> watching = std::make_shared<viewer_registry>();
  std::shared_ptr<runtime::lane_board> lanes = std::make_shared<runtime::lane_board>();
  std::shared_ptr<runtime::lane_reaper> reaper = std::make_shared<runtime::lane_reaper>();
  std::shared_ptr<newest_holdings> held = std::make_shared<newest_holdings>();
  /// What the monitors of this process write in, one after the other: made for the first.
  std::shared_ptr<monitor_book> book(const messages::job_description& told,
                                     std::shared_ptr<const opened_job> job) const;
  mutable std::shared_ptr<monitor_book> book_ = {};
  /// Nothing: the logs begin with the run.
  std::optional<written_so_far> written = {};
  /// Of the folder where the job saves, for one checkpointer after the other; null: nobody has
  /// locked it.
  std::shared_ptr<runtime::save_lock> save_lock = {};
  /// Asks the job for an early end, whoever is its supervisor.
  drain_request drain = {};
  /// Who goes on with the run in the place of this process, which is not to publish anything then;
  /// empty: nobody. Null: nobody could. Blocks for a file system. Throws io_error: it is not known.
  std::function<std::string()> superseded = {};
  /// Starts the processes that host the ranks; none: this one hosts them all.
  messages::agent_actor agent = {};
  /// The other processes of the run; null: there are none.
  std::shared_ptr<actors::neighbours> neighbours = {};
  std::shared_ptr<const message_path> messages = {};
  /// What was injected into all of these; null in a real run.
  std::shared_ptr<const fault_injector> faults = {};

  /// For a run that begins anew: nothing is left of another.
  void forget() {
    ledger = std::make_shared<runtime::step_ledger>();
    estates = std::make_shared<estate_registry>();
    kept = std::make_shared<runtime::kept_states>();
    living = std::make_shared<living_registry>();
    watching = std::make_shared<viewer_registry>();
    lanes = std::make_shared<runtime::lane_board>();
    reaper = std::make_shared<runtime::lane_reaper>();
    held = std::make_shared<newest_holdings>();
    book_.reset();
  }

  /// The jobs that this process has been told of, with the functions that it knows by name.
  std::shared_ptr<job_registry> jobs = std::make_shared<job_registry>();
  std::map<std::string, make_viewer> viewers = {};  ///< by name

  std::function<void(runtime::worker&)> restore
      = {};  ///< fills a new worker; null: initial weights
  /// Fills it with the state after that iteration, from a checkpoint that this run has saved.
  std::function<void(runtime::worker&, std::uint64_t iteration)> restore_saved = {};
  /// Every worker is filled: what `restore` reads may be closed. A checkpoint that is mapped keeps
  /// its space on the disk even when it is removed.
  std::function<void()> restored = {};
};

}  // namespace troupe::actors
