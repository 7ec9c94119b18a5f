#include "actors/command/launched_run.hpp"

#include "actors/command/launch_nodes.hpp"
#include "actors/command/launch_ranks.hpp"
#include "actors/command/shell_words.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/number_range.hpp"
#include "runtime/launch/host_file.hpp"
#include "runtime/process/credentials.hpp"
#include "runtime/process/host_address.hpp"

#include <filesystem>
#include <optional>
#include <vector>

namespace troupe::command {
namespace {

namespace fs = std::filesystem;

/// The command that starts a node on a host.
std::vector<std::string> by_ssh(const training_flags& flags, const std::string& host) {
  const auto& x = flags.hosts;
  std::vector<std::string> where{"--interface", x.interface};
  if (x.interface.empty())
    try {
      where = {"--listen", port_at(runtime::numeric_address(runtime::without_user(host)))};
    } catch (const runtime::input_error& failure) {
      throw runtime::input_error(
          "--hostfile {}: {}; or, if only ssh knows the name, give --interface",
          x.host_file.string(),
          failure.what());
    }
  auto there = "cd " + for_shell(fs::current_path().string()) + " && exec";
  for (const auto& word : attended_node_command(where, flags.job.recovery.suspicion, x.insecure))
    there += " " + for_shell(word);
  return {"/bin/sh", "-c", x.ssh_command + " \"$@\"", "sh", host, there};
}

int run_over_host_file(training_flags& flags, const train_work& work) {
  const auto hosts = runtime::read_host_file(flags.hosts.host_file);
  std::vector<int> slots;
  std::vector<launched_host> names;
  for (const auto& one : hosts) {
    slots.push_back(one.slots);
    names.push_back({.name = runtime::without_user(one.host)});
  }
  decide_workers(flags, slots);
  const auto processes = decide_processes(flags, slots);
  if (flags.dry_run)
    return work(flags, nullptr);
  if (hosts.size() == 1 && flags.job.layout.processes == 1)
    throw usage_error(
        "--hostfile {} names one host, but a run of one process runs where its command is: name "
        "more hosts, or give --processes",
        flags.hosts.host_file.string());
  const scratch_folder folder;
  auto credentials = flags.hosts.credentials;
  if (credentials.empty() && !flags.hosts.insecure) {
    credentials = folder.path() / "credentials";
    runtime::make_credentials(credentials, "over a host file");
  }
  own_nodes nodes;
  {
    launch_signals signals(nodes);
    try {
      for (const auto& one : hosts)
        nodes.start(one.host, by_ssh(flags, one.host), credentials);
      give_nodes(flags,
                 nodes.addresses(launch_patience(flags), [&] { return signals.have_come(); }),
                 names,
                 credentials,
                 processes);
      if (signals.end_of_watch())
        throw runtime::cancelled();
    } catch (const runtime::cancelled&) {
      tell_stopped();
      return 0;
    }
  }
  const int code = work(flags, nullptr);
  nodes.wait_after_run();
  return code;
}

/// True for a process that is not the first of its host, as far as its launcher tells.
bool is_beside_another(const runtime::variable_reader& environment) {
  for (const auto* name :
       {"SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "LOCAL_RANK"})
    if (const char* const value = environment(name);
        value != nullptr && number_in(runtime::whole_range{.least = 1}, value))
      return true;
  return false;
}

}  // namespace

int run_launched(training_flags& flags,
                 const std::vector<std::string>& words,
                 const runtime::variable_reader& environment,
                 const train_work& work) {
  std::optional<runtime::launch_environment> by;
  try {
    by = runtime::launch_environment_of(environment);
  } catch (const runtime::input_error&) {
    if (is_beside_another(environment))  // each host says it once
      return launch_refused;
    throw;
  }
  if (by && by->world > 1)
    return run_as_rank(*by, flags, words, work);
  if (!flags.hosts.host_file.empty() && !flags.hosts.nodes.empty())
    throw usage_error("--hostfile and --nodes exclude each other: give one of them");
  if (!flags.hosts.host_file.empty())
    return run_over_host_file(flags, work);
  if (const char* const hosts = environment("SLURM_JOB_NUM_NODES");
      by && by->launcher.empty() && flags.hosts.nodes.empty() && hosts != nullptr
      && number_in(runtime::whole_range{.least = 2}, hosts))
    runtime::log_warning(
        "this job of Slurm has {} hosts, but this command runs on one of them: start it by srun",
        hosts);
  return work(flags, nullptr);
}

}  // namespace troupe::command
