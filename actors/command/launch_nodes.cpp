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

std::string port_at(const std::string& address, std::uint16_t port) {
  const bool v6 = address.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", address, v6 ? "]" : "", port);
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
                           std::uint16_t port,
                           const fs::path& credentials,
                           const training_flags& flags) {
  start(
      runtime::host_name(),
      attended_node_command(
          {"--listen", port_at(address, port)}, flags.job.recovery.suspicion, flags.hosts.insecure),
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

void decide_workers(training_flags& flags, const std::vector<int>& workers) {
  if (!flags.given.insert("layout.world").second)
    return;
  const auto all = std::accumulate(workers.begin(), workers.end(), std::int64_t(0));
  if (all > runtime::most_workers)
    throw usage_error("{} workers are more than {}: give --world-size", all, runtime::most_workers);
  flags.job.layout.world = int(all);
}

std::vector<int> decide_processes(training_flags& flags, const std::vector<int>& workers) {
  auto& processes = flags.job.layout.processes;
  const bool is_given = !flags.given.insert("layout.processes").second;
  std::vector<int> out;
  const int common = std::accumulate(
      workers.begin(), workers.end(), 0, [](int a, int b) { return std::gcd(a, b); });
  for (const int one : workers)
    out.push_back(one / common);
  const int least = std::accumulate(out.begin(), out.end(), 0);
  const auto hosts = runtime::counted(std::int64_t(workers.size()), "host");
  if (least == int(workers.size()) || flags.job.layout.world % least != 0) {
    if (!is_given)
      processes = int(workers.size());
    else if (std::size_t(processes) % workers.size() != 0)
      throw usage_error(
          "--processes {}: this launch has {}, which get equally many; give a multiple of {}, or "
          "leave it out",
          processes,
          hosts,
          workers.size());
    return {};
  }
  if (!is_given)
    processes = least;
  else if (processes % least != 0)
    throw usage_error(
        "--processes {}: the {} of this launch have different numbers of workers, and all "
        "processes "
        "equally many; give a multiple of {}, or leave it out",
        processes,
        hosts,
        least);
  for (auto& one : out)
    one *= processes / least;
  return out;
}

void give_nodes(training_flags& flags,
                const std::vector<std::string>& nodes,
                std::vector<launched_host> hosts,
                const fs::path& credentials,
                const std::vector<int>& processes) {
  for (std::size_t i = 0; i < nodes.size(); ++i)
    flags.hosts.nodes += (i == 0 ? "" : ",") + nodes[i]
                         + (processes.empty() ? "" : fmt::format("*{}", processes[i]));
  flags.launched = std::move(hosts);
  flags.hosts.credentials = credentials;
}

}  // namespace troupe::command
