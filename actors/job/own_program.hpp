// Lets your own program run jobs over several processes; see examples/10_own_processes.cpp.

#pragma once

#include "actors/job/run.hpp"
#include "runtime/job/job_json.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::actors {

/// Each process of a run is this program, started again. Create this object at the top of `main`
/// and call take_part there:
///
///   int main(int argc, char** argv) {
///     const auto job = my_job();
///     actors::own_program program(argc, argv, functions_of(job));
///     if (const auto code = program.take_part())
///       return *code;
///     const auto end = actors::run(actors::prepare(job), program);
///
/// Every process executes the code above `take_part`. That code must not start threads, read input
/// or print. Other processes have other command lines than the user's, so functions must not depend
/// on it or on anything else that differs between processes. Functions are matched only by name, so
/// a difference is not detected. Put values that the user chooses into the job, which is sent.
class own_program {
 public:
  /// `functions`: all functions that jobs of this program name (extensions, learning rates,
  /// behaviours), since functions cannot be sent. functions_of(job) gives those of one job.
  own_program(int argc, char** argv, runtime::registered_functions functions = {});

  /// When a run has started this process as its host agent or as a node: runs that part to its end
  /// and returns the exit code. Empty if the user started this process. Errors of a part are in the
  /// run's folder, logs/agent-HOST.log and logs/node-N.log. In each process, sets the environment
  /// for UCX, SIGCHLD to its default, and SIGXFSZ to be ignored; in a node also the environment for
  /// OpenMP.
  [[nodiscard]] std::optional<int> take_part();

  /// Throws input_error, with what to write where, when processes of this program could not compute
  /// that job: take_part was not called, or a function is not registered.
  void require_able(const runtime::training_job& job) const;

  /// The command line.
  const std::vector<std::string>& command() const { return command_; }

 private:
  std::vector<std::string> command_, words_;  ///< with the program's name, and without
  runtime::registered_functions functions_;
  bool asked_ = false;
};

/// Runs the job like `run` of run.hpp, in `layout.processes` processes. With several, all on this
/// host, this process has the supervisor and the viewers and hosts no worker; a node that dies is
/// started again. `folder`: the run's folder for logs, `troupe status` and `troupe ledger`, kept
/// afterwards; empty: a temporary one when there are several processes. When this process dies, the
/// others end within the failure detector's timeout, at least five seconds. When the outcome is
/// `left_behind`, the other processes have ended, but hung threads remain here: end this process by
/// std::_Exit. Throws input_error before any process starts (require_able), and io_error.
outcome run(const std::shared_ptr<const prepared_job>& job,
            const own_program& program,
            const std::function<void(const drain_request&)>& started = {},
            const std::vector<make_viewer>& viewers = {},
            const std::filesystem::path& folder = {});

}  // namespace troupe::actors
