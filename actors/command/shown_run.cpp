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
  const auto& given = request.hosts.credentials;
  if (!given.empty())
    runtime::copy_credentials(given, folder_->credentials());
  else if (job.layout.processes > 1)
    runtime::make_credentials(folder_->credentials(), folder_->record().id);
  const auto log = folder_->log_of(only_process);
  runtime::copy_log_to(log);
  if (request.front != nullptr)  // it shows the lines, and what libraries say stands beside them
    runtime::write_output_to(log);
  entry_.emplace(*folder_, entry_of(job));
}

void shown_run::follow(const actors::prepared_job& job) {
  if (!folder_)
    return;
  job.node->ledger->write_down(folder_->ledger());
  if (entry_)
    entry_->follow([ledger = job.node->ledger, living = job.node->living] {
      return progress_of(*ledger, *living);
    });
}

actors::launch_settings shown_run::launch(const runtime::training_job& job,
                                          const run_hosts& hosts) const {
  warn_if_insecure(hosts.insecure);
  const own_program program(folder_->path().string(), job.recovery.suspicion, hosts.insecure);
  return {.run = folder_->path(),
          .agent = program.agent(),
          .node = [program, address = hosts.address](
                      const actors::node_program& x) { return program.node(x, address); },
          .address = hosts.address,
          .standing = hosts.nodes,
          .insecure = hosts.insecure};
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
