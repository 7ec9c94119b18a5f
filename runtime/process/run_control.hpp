// Controls a run from outside by its folder: status, request to end, final result.

#pragma once

#include "runtime/core/cancel.hpp"
#include "runtime/process/process_entry.hpp"
#include "runtime/process/run_folder.hpp"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

enum class run_condition {
  runs,
  ended,     ///< its end is recorded
  died,      ///< it does not run, and no end is recorded
  elsewhere  ///< its supervisor is on another host and can be seen only there
};
const char* name_of(run_condition x);  ///< "running", "ended", "died", "elsewhere"

/// A run as its folder shows it.
struct run_status {
  run_record record;
  run_condition condition = run_condition::died;
  std::vector<seen_process> processes;

  /// The running supervisor process or standing node, if any.
  const seen_process* supervisor() const;
};

/// Throws as run_folder. Damaged entries are reported to `complain`.
run_status status_of(const run_folder& folder,
                     const std::function<void(const std::string&)>& complain);

/// Asks a run to finish its step, save and end: SIGTERM to its supervisor. Sends it once however
/// often this is called, since a second SIGTERM ends the run at once. Returns false when it was
/// asked before. Throws input_error when the run is elsewhere.
bool ask_to_end(const run_folder& folder, const run_status& status);

/// Records the end of a run after its supervisor process ended without doing so. Returns false when
/// the folder has a new run or the end is recorded already. Throws as run_folder, and io_error.
bool say_end_of_died(const std::filesystem::path& folder,
                     const process_id& supervisor,
                     int exit_code,
                     const std::string& reason);

/// Removes files of an ended run that a process left when it was killed: credentials, order,
/// description, rendezvous, and sockets of an agent that does not run. Does nothing if a process
/// holds the folder or the run has not ended.
void remove_remains_of_ended(const std::filesystem::path& folder);

/// Follows the growing logs of a run. One thread.
class log_follower {
 public:
  /// Starts with the last `lines` of each log.
  log_follower(const run_folder& folder, std::size_t lines);

  /// Passes on each new line. `all`: also a last line without a line end, once the writers have
  /// ended.
  void give(const std::function<void(const std::string& process, std::string_view line)>& take,
            bool all = false);

 private:
  struct place {
    std::uintmax_t at = 0;
    std::string begun;  ///< beginning of an unfinished line
  };

  std::filesystem::path logs_;
  std::size_t lines_;
  bool begun_ = false;
  std::map<std::string, place> places_;  ///< by process
};

/// Waits until a run has ended; calls `meanwhile` several times a second. Returns the recorded end;
/// empty if the run died. Throws `cancelled`, as run_folder, and input_error when the folder is
/// removed before the end was seen.
std::optional<run_end> wait_for_end(const run_folder& folder,
                                    const cancel_token& stop,
                                    const std::function<void(const run_status&)>& meanwhile);

}  // namespace troupe::runtime
