// The hub of a run, in its supervisor's process: runtime/watch/hub.hpp. It never ends the run.

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

/// One thread.
class run_hub {
 public:
  /// Gives the job's node its records, and serves them at the socket of the run's folder. Call it
  /// before `run`. A hub that cannot start is a warning. `incarnation`: of this process.
  run_hub(const runtime::held_run_folder& folder,
          const prepared_job& job,
          std::uint32_t incarnation);
  ~run_hub();
  run_hub(const run_hub&) = delete;
  run_hub& operator=(const run_hub&) = delete;

  /// Adds the last record, and gives viewers a short time to get it.
  void end(int exit_code, const std::string& reason);

 private:
  std::shared_ptr<runtime::record_ring> records_;
  std::shared_ptr<command_desk> commands_;
  std::shared_ptr<runtime::hub> hub_;  ///< null: it did not start
};

}  // namespace troupe::actors
