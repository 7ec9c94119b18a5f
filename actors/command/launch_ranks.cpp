#include "actors/command/launch_ranks.hpp"

#include "actors/command/launch_nodes.hpp"
#include "actors/command/launch_other_rank.hpp"
#include "actors/command/meeting_place.hpp"
#include "actors/job/run.hpp"
#include "runtime/core/error.hpp"
#include "runtime/device/backend_kind.hpp"
#include "runtime/device/device.hpp"
#include "runtime/job/build.hpp"
#include "runtime/job/device_setup.hpp"
#include "runtime/launch/launch_folder.hpp"
#include "runtime/machine/machine.hpp"
#include "runtime/process/credentials.hpp"
#include "runtime/process/host_address.hpp"
#include "runtime/process/process_id.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <set>
#include <thread>
#include <unistd.h>
#include <utility>

namespace troupe::command {
namespace {

namespace fs = std::filesystem;
using runtime::launch_environment;
using runtime::launch_member;

constexpr auto patience_for_others = std::chrono::seconds(3);

/// Devices of this host that workers use; 0 without. Rank 0's run says why there are none.
int devices_here(const training_flags& flags) {
  const auto backend = flags.backend == "auto" ? runtime::chosen_backend()
                                               : runtime::backend_from(flags.backend).value();
  if (backend != runtime::backend_kind::cuda)
    return 0;
  int out = 0;
  try {
    auto& all = runtime::open_devices();
    for (int d = 0; d < all.count(); ++d)
      out += all.obstacle(d).empty() ? 1 : 0;
  } catch (const kernels::backend_missing&) {
  }
  return out;
}

/// Workers of each host: one for each rank, or for each device if these are more. Devices count if
/// rank 0 has any, because it chooses the backend.
std::vector<int> workers_of(const std::vector<runtime::launch_host>& hosts) {
  std::vector<int> out;
  for (const auto& one : hosts) {
    if (one.devices == 0 && hosts.front().devices > 0)
      throw runtime::input_error(
          "the host '{}' has no GPU that can be used, but rank 0 on '{}' has {}; see `troupe "
          "doctor` there, leave that host out, or give --backend cpu",
          one.name,
          hosts.front().name,
          hosts.front().devices);
    out.push_back(hosts.front().devices > 0 ? std::max(one.ranks, one.devices) : one.ranks);
  }
  return out;
}

/// Failure domains count if all hosts have one, and not all the same.
std::vector<launched_host> launched_hosts(const std::vector<runtime::launch_host>& hosts) {
  std::set<std::string> domains;
  for (const auto& one : hosts)
    domains.insert(one.domain);
  const bool counts = domains.size() > 1 && !domains.contains("");
  std::vector<launched_host> out;
  for (const auto& one : hosts)
    out.push_back({.name = one.name, .domain = counts ? one.domain : "", .cores = one.cores});
  return out;
}

/// "b:7000" instead of "10.0.0.2:7000", if the name leads there: a host that is lost may come back
/// with another address. Stops at the first name without an address, because a name server that
/// does not answer takes seconds for each.
void use_names(std::vector<std::string>& nodes, const std::vector<runtime::launch_host>& hosts) {
  try {
    for (std::size_t h = 1; h < nodes.size(); ++h) {
      const auto at = runtime::read_host_and_port(nodes[h]);
      if (runtime::numeric_address(hosts[h].name) == at.host)
        nodes[h] = port_at(hosts[h].name, at.port);
    }
  } catch (const runtime::input_error&) {  // the others keep their addresses
  }
}

void refuse_contradictions(const launch_environment& by, const training_flags& flags) {
  const auto& x = flags.hosts;
  for (const auto& [given, flag] : {std::pair(!x.nodes.empty(), "--nodes"),
                                    std::pair(!x.spare_nodes.empty(), "--spare-nodes"),
                                    std::pair(!x.host_file.empty(), "--hostfile"),
                                    std::pair(!x.local_address.empty(), "--local-addr")})
    if (given)
      throw usage_error(
          "{} starts this command {} times on its own hosts, and {} names others: leave it out, or "
          "start the command once",
          by.launcher,
          by.world,
          flag);
  if (!x.credentials.empty() && x.insecure)
    throw usage_error("--credentials and --insecure exclude each other: give one of them");
}

launch_member self_of(const launch_environment& by,
                      const training_flags& flags,
                      const std::vector<std::string>& words) {
  return {.rank = by.rank,
          .world = by.world,
          .local_rank = by.local_rank,
          .host = runtime::host_name(),
          .machine = std::to_string(runtime::steady_clock_of_machine()),
          .pid = ::getpid(),
          .build = runtime::version_text(),
          .command = words,
          .devices = by.local_rank.value_or(0) == 0 ? devices_here(flags) : 0,
          .cores = runtime::look_at_processor().usable(),
          .domain = by.domain};
}

/// Rank 0, up to the end of the meeting.
class rank_0 {
 public:
  rank_0(const launch_environment& by, training_flags& flags, const std::vector<std::string>& words)
      : by_(by), flags_(flags), place_(meeting_place_of(by, flags)) {
    signals_.emplace(nodes_);  // before the meeting's thread
    if (!place_.folder.empty()) {
      runtime::remove_left_launch_folders(place_.folder);
      folder_.emplace(place_.folder, flags.hosts.insecure || !place_.credentials.empty());
    }
    try {
      open(words);
    } catch (const std::exception& failure) {
      if (folder_)
        tell_failure(failure.what());
      throw;
    }
  }

  int run(const train_work& work) {
    try {
      if (!gather())
        return 0;
      const int code = work(flags_, meeting_);
      meeting_->end(code, "");
      nodes_.wait_after_run();
      return code;
    } catch (const usage_error& failure) {
      meeting_->end(launch_refused, failure.what());
      throw;
    } catch (const std::exception& failure) {
      meeting_->end(actors::exit_code_of(failure), failure.what());
      throw;
    }
  }

 private:
  void open(const std::vector<std::string>& words) {
    if (by_.local_rank.value_or(0) != 0)
      throw runtime::input_error(
          "rank 0 of this launch by {} has the local rank {}: it must be the first of its host",
          by_.launcher,
          *by_.local_rank);
    address_ = address_of_rank_0(by_, flags_, place_);
    credentials_
        = folder_ && place_.credentials.empty() ? folder_->credentials() : place_.credentials;
    meeting_ = opened(words);
    if (folder_)
      folder_->publish(address_, meeting_->port());
    if (folder_ && place_.credentials.empty())
      credentials_ = folder_->credentials();
  }

  /// The others look for it; those that come later time out.
  void tell_failure(const std::string& why) {
    try {
      folder_->publish_failure(why);
      std::this_thread::sleep_for(patience_for_others);
    } catch (const runtime::error&) {  // the cause is told
    }
  }

  std::shared_ptr<runtime::meeting> opened(const std::vector<std::string>& words) const {
    std::optional<runtime::credentials> keys;
    if (!credentials_.empty())
      keys = runtime::read_credentials(credentials_);
    const std::uint16_t port = folder_ ? 0 : place_.port;
    try {
      return std::make_shared<runtime::meeting>(self_of(by_, flags_, words), address_, port, keys);
    } catch (const runtime::io_error& failure) {
      throw runtime::input_error(
          "rank 0 of this launch by {}: {}; rank 0 must run on the host that MASTER_ADDR names, "
          "and MASTER_PORT must be free",
          by_.launcher,
          failure.what());
    }
  }

  /// Meets all ranks and has all nodes started. False: a signal came first.
  bool gather() {
    const auto stop = [&] { return signals_->have_come(); };
    const auto patience = launch_patience(flags_);
    try {
      meeting_->gather(patience, stop);
      const auto hosts = meeting_->hosts();
      const auto workers = workers_of(hosts);
      decide_workers(flags_, workers);
      if (is_on_one_host(by_) || hosts.size() == 1) {
        meeting_->begin_without_nodes();
        flags_.hosts.credentials.clear();
        flags_.hosts.insecure = flags_.hosts.insecure && flags_.job.layout.processes > 1;
      } else {
        const auto processes = decide_processes(flags_, workers);
        nodes_.start_here(address_, 0, credentials_, flags_);
        auto all = meeting_->nodes(patience, stop);
        all.front() = nodes_.addresses(patience, stop).front();
        use_names(all, hosts);
        give_nodes(flags_, all, launched_hosts(hosts), credentials_, processes);
        flags_.hosts.local_address = address_;
      }
      if (!signals_->end_of_watch())
        return true;
    } catch (const runtime::cancelled&) {  // here, or at another rank
    }
    tell_stopped();
    meeting_->end(0, "");
    return false;
  }

  const launch_environment& by_;
  training_flags& flags_;
  const meeting_place place_;
  std::string address_;
  std::optional<runtime::launch_folder> folder_;
  fs::path credentials_;
  own_nodes nodes_;
  std::optional<launch_signals> signals_;
  std::shared_ptr<runtime::meeting> meeting_;
};

}  // namespace

int run_as_rank(const launch_environment& by,
                training_flags& flags,
                const std::vector<std::string>& words,
                const train_work& work) {
  try {
    refuse_contradictions(by, flags);
    if (flags.dry_run) {
      decide_workers(flags, {by.world});
      if (!by.tasks.empty())
        decide_processes(flags, by.tasks);
      return by.rank == 0 ? work(flags, nullptr) : 0;
    }
    if (by.rank == 0)  // LAUNCH-2: no other rank trains
      return rank_0(by, flags, words).run(work);
    return run_as_other_rank(by, flags, self_of(by, flags, words));
  } catch (const usage_error&) {  // each host says it once
    if (by.local_rank.value_or(0) == 0)
      throw;
    return launch_refused;
  }
}

}  // namespace troupe::command
