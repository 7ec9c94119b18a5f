// A program of your own that runs jobs over several processes: examples/10_own_processes.cpp is the
// story.

#pragma once

#include "actors/job/run.hpp"
#include "runtime/trainer/job_json.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::actors {

/// Each process of a run is this program, started once more. Made at the top of `main`, and asked
/// there what this process is:
///
///   int main(int argc, char** argv) {
///     const auto job = my_job();
///     actors::own_program program(argc, argv, functions_of(job));
///     if (const auto code = program.take_part())
///       return *code;
///     const auto end = actors::run(actors::prepare(job), program);
///
/// Every process comes along above `take_part`: there it has one thread, and neither reads nor
/// prints. What it was started with are not the user's words in each of them, so that functions
/// must not depend on those, nor on anything else that differs: they are known by their names, and
/// nobody would notice. Values that the user chooses belong in the job, which is sent.
class own_program {
 public:
  /// `functions`: whatever jobs of this program name (extensions, learning rates, behaviours),
  /// since a function cannot be sent; those of one job are functions_of(job).
  own_program(int argc, char** argv, runtime::registered_functions functions = {});

  /// When a run has started this process as its host agent or as a node that hosts workers: is
  /// that, to its end, and returns the exit code. Nothing: this is the process that the user has
  /// started. What goes wrong there stands in the run's folder, logs/agent-HOST.log and
  /// logs/node-N.log. Sets in each process what UCX reads of the environment, SIGCHLD to its
  /// default, and SIGXFSZ to be ignored; in a node what OpenMP reads, too.
  [[nodiscard]] std::optional<int> take_part();

  /// Throws input_error that says what to write where, when processes of this program could not
  /// compute that job: it was not asked what it is, or does not know a function.
  void require_able(const runtime::training_job& job) const;

  /// As it was started.
  const std::vector<std::string>& command() const { return command_; }

 private:
  std::vector<std::string> command_, words_;  ///< with the program's name, and without
  runtime::registered_functions functions_;
  bool asked_ = false;
};

/// As `run` of run.hpp, in as many processes as `layout.processes` says: where these are several,
/// on this host, this one decides, has the viewers, and hosts no worker; a node that dies is
/// started again. `folder`: of the run, for its logs, `troupe status` and `troupe ledger`, kept
/// afterwards; empty: a temporary one where there are several processes. When this process dies the
/// others end within a suspicion, of at least five seconds. When the outcome is `left_behind` they
/// have ended, but this process has threads that cannot be: end it by std::_Exit. Throws
/// input_error, before any process is started (require_able), and io_error.
outcome run(const std::shared_ptr<const prepared_job>& job,
            const own_program& program,
            const std::function<void(const drain_request&)>& started = {},
            const std::vector<make_viewer>& viewers = {},
            const std::filesystem::path& folder = {});

}  // namespace troupe::actors
