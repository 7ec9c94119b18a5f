// The folder of this process's run, for `troupe status`, `troupe wait` and `troupe stop`.

#pragma once

#include "actors/command/run_training.hpp"
#include "actors/job/job_folder.hpp"
#include "actors/job/prepare.hpp"
#include "actors/process/launch_settings.hpp"
#include "runtime/process/arbiter.hpp"
#include "runtime/process/run_folder.hpp"

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>

namespace troupe::command {

/// Used by one thread. The process may end at any time; the folder then shows that the run died.
class shown_run {
 public:
  shown_run() = default;
  shown_run(const shown_run&) = delete;
  shown_run& operator=(const shown_run&) = delete;

  /// Takes the requested folder, or .run in the save folder. From then on the log goes there, and
  /// this process is shown as the supervisor of the run. Throws input_error and io_error for a
  /// requested folder or a job of several processes; otherwise a failure is only a warning.
  void open(const run_request& request, const runtime::training_job& job);
  /// Like `open`, for a run without a supervisor process. Returns the new incarnation; 0 if the
  /// run has ended or another process leads it. Throws input_error and io_error.
  std::uint32_t go_on(const run_request& request, const runtime::training_job& job);
  /// After go_on: prepares the run's job from its folder and its ledger.
  std::shared_ptr<actors::prepared_job> prepare_to_go_on() const;
  /// Null if the run has no folder.
  const runtime::held_run_folder* folder() const { return folder_ ? &folder_->folder() : nullptr; }
  /// Records the job's progress once a second. The job does not wait for it.
  void follow(const actors::prepared_job& job);
  /// Gives up the lead, so that another host may take over. Allowed before and after the start.
  void resign();

  /// Launch settings of a job with several processes. Also writes the order for a successor of this
  /// process into the folder, if the run may have one.
  actors::launch_settings launch(const actors::prepared_job& job, const run_request& request);

  void end(int exit_code, const std::string& reason);
  /// Like above, with the exit code and the text of the error.
  void end(const std::exception& failure);

 private:
  void open_at(const std::filesystem::path& folder,
               const run_request& request,
               const runtime::training_job& job);
  void show(runtime::held_run_folder folder,
            const run_request& request,
            const runtime::training_job& job);

  /// The incarnation of this process if it wins the round; 0 otherwise. Above `asked` if earlier
  /// winners have resigned.
  std::uint32_t incarnation_won(runtime::held_run_folder& folder,
                                const runtime::training_job& job,
                                bool moved,
                                std::uint32_t asked);
  void end_rounds(int exit_code);
  void open_to_other_hosts(actors::launch_settings& to,
                           const runtime::training_job& job,
                           const run_request& request);

  std::optional<actors::job_folder> folder_;
  /// Decides which host leads the run; empty if no other host can.
  std::optional<runtime::arbiter> arbiter_;
  runtime::contender who_;   ///< this process, for the arbiter
  std::uint32_t round_ = 1;  ///< the first round that this process won
  bool moved_ = false;       ///< the run began on another host
  /// Set by the launcher; read before each save.
  struct others {
    std::atomic<bool> may_lead = false;
    std::atomic<bool> lead = false;
  };
  std::shared_ptr<others> others_ = std::make_shared<others>();
};

}  // namespace troupe::command
