// A run of this process, as its folder shows it to `troupe status`, `troupe wait` and `troupe
// stop`.

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

/// One thread, but for the end of the process, which may come at any time: then the folder shows
/// that the run died.
class shown_run {
 public:
  /// Nothing is shown yet.
  shown_run() = default;
  shown_run(const shown_run&) = delete;
  shown_run& operator=(const shown_run&) = delete;

  /// Takes the folder that was asked for, or the one below the save folder; from then on it has the
  /// log, and this process as the supervisor of the run. Throws input_error and io_error for one
  /// that was asked for, or that the job needs, as it has several processes; of the other only
  /// warns.
  void open(const run_request& request, const runtime::training_job& job);
  /// The same of a run whose supervisor's process is gone, in its folder. As which incarnation; 0:
  /// it has ended, or another process goes on with it. Throws input_error and io_error.
  std::uint32_t go_on(const run_request& request, const runtime::training_job& job);
  /// Then: its job and its ledger.
  std::shared_ptr<actors::prepared_job> prepare_to_go_on() const;
  /// Null: nothing is shown.
  const runtime::held_run_folder* folder() const { return folder_ ? &folder_->folder() : nullptr; }
  /// Shows where the job stands, once a second; nothing of it waits for that.
  void follow(const actors::prepared_job& job);
  /// This process cannot go on after all, before or after it has begun to: another host may.
  void resign();

  /// How the processes of this job are started, which has several: by this program, or on hosts.
  /// What a successor of this process needs is left in the folder, where there may be one.
  actors::launch_settings launch(const actors::prepared_job& job, const run_request& request);

  void end(int exit_code, const std::string& reason);
  /// By what the program will complain of.
  void end(const std::exception& failure);

 private:
  void open_at(const std::filesystem::path& folder,
               const run_request& request,
               const runtime::training_job& job);
  void show(runtime::held_run_folder folder,
            const run_request& request,
            const runtime::training_job& job);

  /// The same number, of `asked` where no winner before has resigned.
  std::uint32_t incarnation_won(runtime::held_run_folder& folder,
                                const runtime::training_job& job,
                                bool moved,
                                std::uint32_t asked);
  void end_rounds(int exit_code);
  void open_to_other_hosts(actors::launch_settings& to,
                           const runtime::training_job& job,
                           const run_request& request);

  std::optional<actors::job_folder> folder_;
  /// Where it is decided which host goes on with the run; nothing: this one alone could.
  std::optional<runtime::arbiter> arbiter_;
  runtime::contender who_;   ///< this process there
  std::uint32_t round_ = 1;  ///< the first that was won here
  bool moved_ = false;       ///< the run was begun on another host
  /// Set by the launcher, read by whoever saves.
  struct others {
    std::atomic<bool> may_lead = false;
    std::atomic<bool> lead = false;
  };
  std::shared_ptr<others> others_ = std::make_shared<others>();
};

}  // namespace troupe::command
