// The hub of a run (runtime/watch/hub.hpp), in its supervisor's process. A failure of the hub does
// not affect the run.

#pragma once

#include "actors/job/prepare.hpp"
#include "runtime/process/run_folder.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace troupe::runtime {
class hub;
}

namespace troupe::actors {

/// Used by one thread.
class run_hub {
 public:
  /// Creates the record ring of the job's node, and serves it at the socket in the run's folder.
  /// Call it before `run`. Logs a warning if the hub cannot start. `incarnation`: of this process.
  run_hub(const runtime::held_run_folder& folder,
          const prepared_job& job,
          std::uint32_t incarnation);
  ~run_hub();
  run_hub(const run_hub&) = delete;
  run_hub& operator=(const run_hub&) = delete;

  /// Adds the last record, and waits up to 500 ms until viewers have received it.
  void end(int exit_code, const std::string& reason);

 private:
  std::shared_ptr<runtime::record_ring> records_;
  std::shared_ptr<command_desk> commands_;
  std::shared_ptr<runtime::hub> hub_;  ///< null: it did not start
};

}  // namespace troupe::actors
