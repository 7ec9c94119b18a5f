#include "actors/job/own_program.hpp"

#include "actors/job/job_folder.hpp"
#include "actors/job/part_commands.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/openmp_environment.hpp"
#include "runtime/job/build.hpp"
#include "runtime/process/orphaned_agents.hpp"
#include "runtime/process/run_folder.hpp"
#include "runtime/process/temporary_run.hpp"
#include "runtime/transport/ucx_wire.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <unistd.h>
#include <utility>

namespace troupe::actors {
namespace {

// Without a successor of this process, its agent can end soon. But this process may be slow to send
// its first request.
constexpr double least_patience = 5;  // seconds

template <class Function>
void require_known(const std::map<std::string, Function>& needed,
                   const std::map<std::string, Function>& known,
                   const char* what,
                   const char* member) {
  for (const auto& [name, function] : needed)
    if (!known.contains(name))
      throw runtime::input_error(
          "the job has {} '{}', which the other processes of this run do not know, because "
          "functions cannot be sent: register it at the top of `main`, which every process "
          "executes, in own_program's functions (registered_functions::{}); functions_of(job) "
          "returns all functions of a job",
          what,
          name,
          member);
}

runtime::held_run_folder held(const std::filesystem::path& folder, const own_program& program) {
  if (!folder.empty())
    return {folder, runtime::version_text(), program.command()};
  auto out = runtime::held_run_folder::temporary(runtime::version_text(), program.command());
  runtime::mark_temporary(out, runtime::this_process());
  return out;
}

std::vector<char*> as_argv(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (auto& word : words)
    out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

own_program::own_program(int argc, char** argv, runtime::registered_functions functions)
    : command_(argv, argv + argc),
      words_(command_.begin() + (command_.empty() ? 0 : 1), command_.end()),
      functions_(std::move(functions)) {}

std::optional<int> own_program::take_part() {
  asked_ = true;
  runtime::choose_settings_of_ucx();
  ::signal(SIGCHLD, SIG_DFL);  // an ignored SIGCHLD, inherited from the parent, would hide the exit
                               // status of children
  ::signal(SIGXFSZ, SIG_IGN);  // a write beyond the file size limit then fails with an error
  if (!is_part(words_))
    return {};
  runtime::run_with_settings_of_openmp(as_argv(command_).data());
  return play_part(words_, functions_);
}

void own_program::require_able(const runtime::training_job& job) const {
  if (!asked_ || is_part(words_))
    throw runtime::input_error(
        "`layout.processes` is {}, but this program does not call take_part: write `if (const auto "
        "code = program.take_part()) return *code;` at the top of `main`",
        job.layout.processes);
  const auto needed = runtime::functions_of(job);
  require_known(needed.extensions, functions_.extensions, "the model extension", "extensions");
  require_known(needed.rates, functions_.rates, "the learning rate", "rates");
  require_known(needed.behaviours, functions_.behaviours, "the schedule", "behaviours");
}

outcome run(const std::shared_ptr<const prepared_job>& job,
            const own_program& program,
            const std::function<void(const drain_request&)>& started,
            const std::vector<make_viewer>& viewers,
            const std::filesystem::path& folder) {
  const auto& settings = job->opened().job;
  const bool alone = settings.layout.processes == 1;
  if (!alone)
    program.require_able(settings);
  if (alone && folder.empty())
    return run(job, started, viewers);
  job_folder shown(held(folder, program), settings);
  try {
    shown.follow(*job);
    std::optional<launch_settings> processes;
    if (!alone)
      processes = launch_of_parts(
          {.run = shown.folder().path(),
           .suspicion = settings.recovery.suspicion,
           .patience = std::max(1.0, least_patience / settings.recovery.suspicion)});
    const auto end = run(job, started, viewers, processes);
    if (end.left_behind
        && !alone) {  // hung threads keep the connection open that the agent waits for
      const auto suspicion = std::chrono::ceil<std::chrono::milliseconds>(
          std::chrono::duration<double>(settings.recovery.suspicion));
      runtime::end_agents_of(shown.folder().path(), suspicion, suspicion);
    }
    shown.end(end.exit_code, end.reason);
    return end;
  } catch (const std::exception& failure) {
    shown.end(exit_code_of(failure), failure.what());
    throw;
  }
}

}  // namespace troupe::actors
