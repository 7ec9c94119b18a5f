#include "actors/command/shown_run.hpp"

#include "actors/command/commands.hpp"
#include "actors/command/setting_names.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/process/child_process.hpp"
#include "runtime/process/credentials.hpp"
#include "runtime/trainer/build.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <numeric>
#include <utility>

namespace troupe::command {
namespace {

constexpr const char* only_process = "supervisor";

/// All actors live in this process, or all but those that compute; the foremost is the supervisor.
runtime::process_entry entry_of(const runtime::training_job& job) {
  auto out = runtime::entry_of_this_process(only_process, "supervisor");
  out.roles = {"supervisor"};
  if (job.layout.processes > 1)
    return out;
  out.roles.emplace_back("node");
  out.ranks.resize(std::size_t(job.layout.world));
  std::iota(out.ranks.begin(), out.ranks.end(), 0);
  return out;
}

runtime::process_progress progress_of(const runtime::step_ledger& ledger,
                                      const actors::living_registry& living) {
  runtime::process_progress out{.step = ledger.newest()};
  constexpr auto newest = runtime::generation_id(std::numeric_limits<std::uint64_t>::max());
  for (const auto& one : living.until(newest))
    out.generation = std::max(out.generation, std::uint64_t(one.generation));
  return out;
}

}  // namespace

void shown_run::open(const run_request& request, const runtime::training_job& job) {
  if (request.temporary)
    return show(runtime::held_run_folder::temporary(
                    request.run_folder, runtime::version_text(), request.command),
                request,
                job);
  if (!request.run_folder.empty())
    return open_at(request.run_folder, request, job);
  if (job.checkpoints.save.empty())
    return;
  try {
    open_at(job.checkpoints.save / ".run", request, job);
  } catch (const runtime::error& failure) {
    runtime::log_warning("`troupe status` will not show this run: {}", failure.what());
  }
}

void shown_run::open_at(const std::filesystem::path& folder,
                        const run_request& request,
                        const runtime::training_job& job) {
  show(runtime::held_run_folder(folder, runtime::version_text(), request.command), request, job);
}

void shown_run::show(runtime::held_run_folder folder,
                     const run_request& request,
                     const runtime::training_job& job) {
  folder_.emplace(std::move(folder));
  if (job.layout.processes > 1)
    runtime::make_credentials(folder_->credentials(), folder_->record().id);
  const auto log = folder_->log_of(only_process);
  runtime::copy_log_to(log);
  if (request.front != nullptr)  // it shows the lines, and what libraries say stands beside them
    runtime::write_output_to(log);
  entry_.emplace(*folder_, entry_of(job));
}

void shown_run::follow(const actors::prepared_job& job) {
  if (entry_)
    entry_->follow([ledger = job.node->ledger, living = job.node->living] {
      return progress_of(*ledger, *living);
    });
}

actors::launch_settings shown_run::launch(const runtime::training_job& job) const {
  const auto program = std::filesystem::read_symlink("/proc/self/exe").string();
  const auto run = folder_->path().string();
  const auto suspicion = fmt::format("{}", job.recovery.suspicion);
  actors::launch_settings out;
  out.run = folder_->path();
  out.agent = {program, "agent", "--run", run, "--suspicion-seconds", suspicion, "--connection"};
  out.node = [=](const actors::node_program& x) {
    return std::vector<std::string>{program,
                                    "node",
                                    "--run",
                                    run,
                                    "--process",
                                    std::to_string(x.process),
                                    "--incarnation",
                                    std::to_string(x.incarnation),
                                    "--rendezvous",
                                    fmt::format("{}:{}", x.address, x.port),
                                    "--suspicion-seconds",
                                    suspicion};
  };
  return out;
}

void shown_run::end(int exit_code, const std::string& reason) {
  if (!folder_)
    return;
  if (entry_)
    entry_->stop();
  try {
    folder_->end(exit_code, with_flags(reason));
  } catch (const runtime::error& failure) {
    runtime::log_warning("others cannot see how this run ended: {}", failure.what());
  }
}

void shown_run::end(const std::exception& failure) {
  end(exit_code_of(failure), failure.what());
}

}  // namespace troupe::command
