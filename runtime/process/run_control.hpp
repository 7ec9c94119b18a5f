// Asking a run from outside, by its folder alone: where it stands, to end, how it ended.

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
  ended,     ///< and said how
  died,      ///< it runs no more, and has not said how it ended
  elsewhere  ///< its supervisor is on another host, from which alone it can be seen
};
const char* name_of(run_condition x);  ///< "running", "ended", "died", "elsewhere"

/// A run, as its folder shows it.
struct run_status {
  run_record record;
  run_condition condition = run_condition::died;
  std::vector<seen_process> processes;

  /// The process that decides; nothing: none has an entry yet, or it runs no more.
  const seen_process* supervisor() const;
};

/// Throws as run_folder. Entries that are damaged are told to `complain`.
run_status status_of(const run_folder& folder,
                     const std::function<void(const std::string&)>& complain);

/// Asks a run that runs to finish its step, save and end: SIGTERM to its supervisor, once, however
/// often this is called, since a second one would end it at once. False: it has been asked before.
/// Throws input_error when it runs elsewhere.
bool ask_to_end(const run_folder& folder, const run_status& status);

/// Says in the place of a supervisor's process that has ended without it how the run ended. False:
/// the folder has another run by now, or this one has said it. Throws as run_folder, and io_error.
bool say_end_of_died(const std::filesystem::path& folder,
                     const process_id& supervisor,
                     int exit_code,
                     const std::string& reason);

/// Follows the logs of a run as they grow. One thread.
class log_follower {
 public:
  /// Begins with the last `lines` of each log.
  log_follower(const run_folder& folder, std::size_t lines);

  /// Gives each line that is there and was not given; of the last one what stands there, when
  /// nobody writes any more.
  void give(const std::function<void(const std::string& process, std::string_view line)>& take,
            bool all = false);

 private:
  struct place {
    std::uintmax_t at = 0;
    std::string begun;  ///< of a line whose end is not there
  };

  std::filesystem::path logs_;
  std::size_t lines_;
  bool begun_ = false;
  std::map<std::string, place> places_;  ///< by process
};

/// Waits until a run ends, at once when it has; calls `meanwhile` some times a second. Returns its
/// end; nothing: it died. Throws `cancelled`, as run_folder, and input_error where the folder is
/// gone before it was seen how the run ended.
std::optional<run_end> wait_for_end(const run_folder& folder,
                                    const cancel_token& stop,
                                    const std::function<void(const run_status&)>& meanwhile);

}  // namespace troupe::runtime
