// Who takes part in a run: a file for each process, in the run's folder, which that process writes.

#pragma once

#include "runtime/process/process_id.hpp"
#include "runtime/process/run_folder.hpp"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace troupe::runtime {

/// Where a process stands; it changes while it runs.
struct process_progress {
  std::uint64_t generation = 0;  ///< 0: none yet
  std::uint64_t step = 0;        ///< the newest that was committed
  bool operator==(const process_progress&) const = default;
};

struct process_entry {
  std::string name;  ///< the file's, without .json: is_process_name
  process_id process;
  std::string host;
  std::string role;                ///< "supervisor", "node", "agent", ...: its foremost
  std::vector<std::string> roles;  ///< all that it plays
  std::vector<int> ranks;          ///< that it hosts
  std::uint64_t incarnation = 1;
  process_progress progress;
  bool operator==(const process_entry&) const = default;
};

std::string text_of(const process_entry& x);
/// Throws input_error, beginning with `what`.
process_entry read_process_entry(std::string_view text,
                                 const std::string& name,
                                 const std::string& what);

/// Of this process: pid, start, host are filled in.
process_entry entry_of_this_process(const std::string& name, const std::string& role);

/// Throws io_error.
void write_entry(const run_folder& to, const process_entry& x);
void remove_entry(const run_folder& of, const std::string& name);

/// One that the folder has, and whether its process runs: nothing for one of another host, which
/// cannot be seen from here.
struct seen_process {
  process_entry entry;
  std::optional<bool> runs;
};

/// All of them, by name: none while the folder is being taken by the next run. One that is damaged
/// is told to `complain` and left out.
std::vector<seen_process> seen_processes(const run_folder& of,
                                         const std::function<void(const std::string&)>& complain);

/// Keeps the entry of this process up to date, on a thread of its own: asks every second, and
/// writes when the answer has changed. No one who makes progress waits for it. What cannot be
/// written is told once, as a warning, and tried again.
class entry_keeper {
 public:
  entry_keeper(const run_folder& to, process_entry entry);
  ~entry_keeper();  ///< the entry stays, as it is at the end
  entry_keeper(const entry_keeper&) = delete;
  entry_keeper& operator=(const entry_keeper&) = delete;

  /// From now on; any thread may be asked, until this object ends or it is replaced.
  void follow(std::function<process_progress()> ask);
  /// Nobody is asked any more; what was answered last is written.
  void stop();

 private:
  void loop();
  void refresh();

  run_folder to_;
  process_entry entry_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<process_progress()> ask_;
  bool end_ = false, complained_ = false;
  std::jthread thread_;
};

}  // namespace troupe::runtime
