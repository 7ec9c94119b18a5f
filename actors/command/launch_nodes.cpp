#include "actors/command/launch_nodes.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/process/credentials.hpp"
#include "runtime/process/process_id.hpp"
#include "runtime/process/run_folder.hpp"

#include <fmt/format.h>
#include <numeric>
#include <unistd.h>
#include <utility>

namespace troupe::command {
namespace {

namespace fs = std::filesystem;
using clock = std::chrono::steady_clock;

constexpr auto between_node_looks = std::chrono::milliseconds(100);
constexpr auto patience_after_run = std::chrono::seconds(20);

}  // namespace

scratch_folder::scratch_folder() : path_(runtime::new_temporary_folder()) {}

scratch_folder::~scratch_folder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string any_port_at(const std::string& address) {
  const bool v6 = address.find(':') != std::string::npos;
  return fmt::format("{}{}{}:0", v6 ? "[" : "", address, v6 ? "]" : "");
}

void own_nodes::start(const std::string& host,
                      const std::vector<std::string>& command,
                      const fs::path& credentials) {
  const auto line
      = credentials.empty() ? "" : runtime::text_of(runtime::read_credentials(credentials));
  const std::lock_guard lock(mutex_);
  all_.emplace_back(host, command, line, folder_.path() / fmt::format("node-{}", all_.size()));
}

void own_nodes::start_here(const std::string& address,
                           const fs::path& credentials,
                           const training_flags& flags) {
  start(runtime::host_name(),
        attended_node_command(
            {"--listen", any_port_at(address)}, flags.job.recovery.suspicion, flags.hosts.insecure),
        credentials);
}

std::vector<std::string> own_nodes::addresses(std::chrono::milliseconds at_most,
                                              const std::function<bool()>& stop) {
  const auto until = clock::now() + at_most;
  std::vector<std::string> out;
  for (auto& one : all_)
    out.push_back(one.address(until, stop));
  return out;
}

void own_nodes::wait_after_run(bool goes_on) {
  for (auto& one : all_)
    one.ask_to_end_unless_it_serves();
  const auto until = clock::now() + patience_after_run;
  for (auto& one : all_)
    while (!one.has_ended(between_node_looks) && (goes_on || clock::now() < until)) {
    }
}

void own_nodes::end_at_once() {
  const std::lock_guard lock(mutex_);
  for (auto& one : all_)
    one.ask_to_end();
}

launch_signals::launch_signals(own_nodes& nodes)
    : watch_(
        std::in_place,
        [this](const char* name) { first(name); },
        [&nodes](const char* name) {
          nodes.end_at_once();
          ::_exit(exit_code_of_signal(name));
        }) {}

std::string launch_signals::name() const {
  const std::lock_guard lock(mutex_);
  return name_;
}

void launch_signals::pass_to(std::function<void(const std::string& name)> take) {
  const std::lock_guard lock(mutex_);
  take_ = std::move(take);
  if (take_ && !name_.empty())
    take_(name_);
}

void launch_signals::first(const char* name) {
  const std::lock_guard lock(mutex_);
  name_ = name;
  if (take_)
    take_(name_);
}

void tell_stopped() {
  runtime::log_info(" stopped before the first iteration; nothing was trained or saved");
}

std::chrono::milliseconds launch_patience(const training_flags& flags) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(flags.hosts.launch_timeout));
}

void decide_workers(training_flags& flags, std::size_t workers) {
  if (!flags.given.insert("layout.world").second)
    return;
  if (workers > std::size_t(runtime::most_workers))
    throw usage_error(
        "{} workers are more than {}: give --world-size", workers, runtime::most_workers);
  flags.job.layout.world = int(workers);
}

void decide_processes(training_flags& flags, std::size_t hosts, const std::vector<int>& uneven) {
  auto& given = flags.job.layout.processes;
  const int fixed = std::accumulate(uneven.begin(), uneven.end(), 0);
  if (flags.given.insert("layout.processes").second)
    given = uneven.empty() ? int(hosts) : fixed;
  else if (!uneven.empty() && given != fixed)
    throw usage_error(
        "--processes {}: the slots of --hostfile {} differ and share {} processes; give {}, or "
        "leave it out",
        given,
        flags.hosts.host_file.string(),
        fixed,
        fixed);
  else if (uneven.empty() && std::size_t(given) % hosts != 0)
    throw usage_error(
        "--processes {}: this launch has {}, which get equally many; give a multiple of {}, or "
        "leave it out",
        given,
        runtime::counted(std::int64_t(hosts), "host"),
        hosts);
}

void give_nodes(training_flags& flags,
                const std::vector<std::string>& nodes,
                const fs::path& credentials,
                const std::vector<int>& processes) {
  for (std::size_t i = 0; i < nodes.size(); ++i)
    flags.hosts.nodes += (i == 0 ? "" : ",") + nodes[i]
                         + (processes.empty() ? "" : fmt::format("*{}", processes[i]));
  flags.hosts.credentials = credentials;
}

}  // namespace troupe::command
