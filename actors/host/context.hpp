// The context of a process: the services and state that its node shares with the actors it hosts.
// It never travels; an actor gets the description of its job in the message that spawns it.

#pragma once

#include "actors/host/environment.hpp"
#include "actors/host/holdings.hpp"
#include "actors/host/opened_job.hpp"
#include "actors/host/registries.hpp"
#include "actors/host/viewer.hpp"
#include "actors/support/command_desk.hpp"
#include "actors/support/message_path.hpp"
#include "runtime/data/batch_source.hpp"
#include "runtime/device/lane_board.hpp"
#include "runtime/device/lane_reaper.hpp"
#include "runtime/machine/gpu_meter.hpp"
#include "runtime/process/package_energy.hpp"
#include "runtime/process/process_id.hpp"
#include "runtime/state/kept_states.hpp"
#include "runtime/state/local_states.hpp"
#include "runtime/state/step_ledger.hpp"
#include "runtime/telemetry/operation_profile.hpp"
#include "runtime/telemetry/recent_warnings.hpp"
#include "runtime/telemetry/record_ring.hpp"
#include "runtime/telemetry/trace.hpp"
#include "runtime/telemetry/traffic.hpp"
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

/// Factor on the suspicion timeout for actors that read or write disks: they cannot report progress
/// during a system call.
inline constexpr double patience_with_disks = 4;

/// The end of the logs of a run as written by an earlier process.
struct written_so_far {
  std::uint64_t fact = 0;       ///< number of the newest ledger fact in every log
  std::uint64_t iteration = 0;  ///< last iteration in the logs
  std::uint64_t consumed = 0;   ///< samples consumed up to `iteration`
};

/// Filled before the node is spawned; then immutable or thread-safe. Exception: the monitors use
/// the log book one after the other.
struct node_context {
  std::shared_ptr<runtime::transport> transport = {};
  /// On the clock of the actor system, the only clock that actors read.
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
  std::shared_ptr<const runtime::batch_source> training = {}, validation = {}, test = {};
  runtime::memory_pool pool = {};  ///< for micro-batches
  std::shared_ptr<pool_registry> pools = std::make_shared<pool_registry>();
  environment env = {};

  std::shared_ptr<runtime::trace_recorder> trace = {};       ///< null: tracing is off
  std::shared_ptr<runtime::operation_profile> profile = {};  ///< null: profiling is off
  std::shared_ptr<runtime::record_ring> records = {};        ///< null: the run has no hub
  std::shared_ptr<const runtime::gpu_meter> gpus = {};       ///< null: no rank uses a GPU
  std::shared_ptr<runtime::traffic_counters> traffic
      = std::make_shared<runtime::traffic_counters>();
  /// Warnings of this process, if the hub is in another one.
  std::shared_ptr<runtime::recent_warnings> warnings = std::make_shared<runtime::recent_warnings>();
  std::uint64_t clock = runtime::steady_clock_of_machine();  ///< of stages' times
  std::shared_ptr<runtime::package_energy> energy = std::make_shared<runtime::package_energy>();
  std::shared_ptr<command_desk> commands = {};  ///< null: the run takes no commands
  /// True if a viewer has recently sent the hub a request. Any thread.
  std::function<bool()> is_watched = [] { return false; };

  // State that outlives actors: a restarted actor continues with it.
  std::shared_ptr<runtime::step_ledger> ledger = std::make_shared<runtime::step_ledger>();
  std::shared_ptr<estate_registry> estates = std::make_shared<estate_registry>();
  /// Copies of the states of another process's ranks.
  std::shared_ptr<runtime::kept_states> kept = std::make_shared<runtime::kept_states>();
  /// States that a keeper wrote to a local disk of this host; null: local snapshots are off.
  std::shared_ptr<runtime::local_states> stored = {};
  std::shared_ptr<living_registry> living = std::make_shared<living_registry>();
  std::shared_ptr<viewer_registry> watching = std::make_shared<viewer_registry>();
  std::shared_ptr<runtime::lane_board> lanes = std::make_shared<runtime::lane_board>();
  std::shared_ptr<runtime::lane_reaper> reaper = std::make_shared<runtime::lane_reaper>();
  std::shared_ptr<newest_holdings> held = std::make_shared<newest_holdings>();
  /// Shared log book of this process's monitors, created on first use.
  std::shared_ptr<monitor_book> book(const messages::job_description& told,
                                     std::shared_ptr<const opened_job> job) const;
  mutable std::shared_ptr<monitor_book> book_ = {};
  /// Empty: the logs begin with the run.
  std::optional<written_so_far> written = {};
  /// Lock on the folder where the job saves; the checkpointers hold it one after the other. Null:
  /// not locked.
  std::shared_ptr<runtime::save_lock> save_lock = {};
  /// Asks the current supervisor for an early end.
  drain_request drain = {};
  /// Name of the process that continues the run in this one's place; this process must then stop
  /// publishing. Empty: there is none. Null: takeover is impossible. Blocks on the file system.
  /// Throws io_error if the answer is unknown.
  std::function<std::string()> superseded = {};
  /// Starts the processes that host the ranks; null: this process hosts all of them.
  messages::agent_actor agent = {};
  /// Connections to the other processes of the run; null in single-process runs.
  std::shared_ptr<actors::neighbours> neighbours = {};
  std::shared_ptr<const message_path> messages = {};
  /// Faults injected into these members; null in a real run.
  std::shared_ptr<const fault_injector> faults = {};

  /// Discards the state of the previous run before a new one begins.
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

  /// Jobs that this process has received, with its functions registered by name.
  std::shared_ptr<job_registry> jobs = std::make_shared<job_registry>();
  std::map<std::string, make_viewer> viewers = {};  ///< by name

  std::function<void(runtime::worker&)> restore
      = {};  ///< fills a new worker; null: initial weights
  /// Fills a worker with the state after that iteration, from a checkpoint that this run saved.
  std::function<void(runtime::worker&, std::uint64_t iteration)> restore_saved = {};
  /// Called after every worker is filled: closes the files that `restore` reads. A mapped
  /// checkpoint occupies disk space even after it is removed.
  std::function<void()> restored = {};
};

}  // namespace troupe::actors
