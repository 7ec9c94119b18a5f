#include "actors/command/launch_ranks.hpp"

#include "actors/command/launch_nodes.hpp"
#include "actors/command/meeting_place.hpp"
#include "actors/job/run.hpp"
#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/device/backend_kind.hpp"
#include "runtime/device/device.hpp"
#include "runtime/job/build.hpp"
#include "runtime/job/device_setup.hpp"
#include "runtime/launch/launch_folder.hpp"
#include "runtime/launch/meeting_member.hpp"
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
#include <variant>

namespace troupe::command {
namespace {

namespace fs = std::filesystem;
using clock = std::chrono::steady_clock;
using runtime::launch_environment;
using runtime::launch_member;

constexpr auto between_tries = std::chrono::milliseconds(100);
constexpr auto between_reports = std::chrono::seconds(3);
constexpr auto patience_for_names = std::chrono::seconds(5);
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

/// Workers of each host: one for each rank, or for each device if these are more.
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
    out.push_back(std::max(one.ranks, one.devices));
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
/// with another address.
std::string by_name(const std::string& node, const std::string& host) {
  const auto at = runtime::read_host_and_port(node);
  try {
    if (runtime::numeric_address(host) == at.host)
      return port_at(host, at.port);
  } catch (const runtime::input_error&) {
  }
  return node;
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
          "and "
          "MASTER_PORT must be free",
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
        for (std::size_t h = 1; h < all.size(); ++h)
          all[h] = by_name(all[h], hosts[h].name);
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

/// A process of another rank.
class other_rank {
 public:
  other_rank(const launch_environment& by,
             const training_flags& flags,
             const std::vector<std::string>& words)
      : flags_(flags),
        place_(meeting_place_of(by, flags)),
        self_(self_of(by, flags, words)),
        signals_(nodes_),
        until_(clock::now() + launch_patience(flags)) {}
  ~other_rank() { signals_.pass_to({}); }

  int run() {
    try {
      const auto joined = join();
      if (const auto* const end = std::get_if<runtime::launch_end>(&joined))
        return told(*end);
      signals_.pass_to([this](const std::string& name) { pass_on(name); });
      if (const auto& begin = std::get<runtime::launch_begin>(joined); begin.starts_node)
        start(begin.node);
      return told(wait_for_end());
    } catch (const runtime::cancelled&) {
      if (member_)  // else rank 0 would wait for this rank
        pass_on(signals_.name());
      if (is_first())
        tell_stopped();
      return 0;
    } catch (const runtime::error&) {  // each host says it once
      if (is_first())
        throw;
      return launch_refused;
    }
  }

 private:
  bool is_first() const { return self_.local_rank.value_or(0) == 0; }

  std::optional<runtime::published_meeting> find() const {
    if (place_.folder.empty())
      return runtime::published_meeting{
          runtime::numeric_address(place_.address), place_.port, place_.credentials};
    auto out = runtime::find_launch_folder(place_.folder,
                                           flags_.hosts.insecure || !place_.credentials.empty());
    if (out && !place_.credentials.empty())
      out->credentials = place_.credentials;
    return out;
  }

  std::variant<runtime::launch_begin, runtime::launch_end> join() {
    const auto begun = clock::now();
    auto report = begun + between_reports;
    std::string last;
    for (;;) {
      try {
        if (const auto where = find()) {
          if (!where->failure.empty())
            return runtime::launch_end{
                .exit_code = launch_refused,
                .reason = "rank 0 of this launch does not start: " + where->failure,
                .first = is_first()};
          last = fmt::format("it listens at {} port {}", where->address, where->port);
          member_ = std::make_unique<runtime::meeting_member>(
              self_, where->address, where->port, where->credentials);
          rank_0_ = where->address;
          credentials_ = where->credentials;
          return member_->join([this] { return signals_.have_come(); });
        }
        last = fmt::format(
            "it has not written '{}'; see what rank 0 says, and that all hosts see this folder",
            place_.folder.string());
      } catch (const runtime::input_error& failure) {
        if (clock::now() > begun + patience_for_names)
          throw;
        last = failure.what();
      } catch (const runtime::io_error& failure) {
        last = failure.what();
      }
      if (signals_.have_come())
        throw runtime::cancelled();
      if (clock::now() > until_)
        throw runtime::input_error("rank {} of this launch does not reach rank 0 within {} s: {}",
                                   self_.rank,
                                   flags_.hosts.launch_timeout,
                                   last);
      if (is_first() && clock::now() > report) {
        runtime::log_info(" rank {} waits for rank 0: {}", self_.rank, last);
        report = clock::now() + between_reports;
      }
      std::this_thread::sleep_for(between_tries);
    }
  }

  /// `earlier`: the address of the node that a killed predecessor of this process started; the run
  /// looks for it at that port.
  void start(const std::string& earlier) {
    std::string address, failure;
    try {
      const auto& interface = flags_.hosts.interface;
      const auto here = interface.empty() ? runtime::own_address_towards(rank_0_)
                                          : runtime::address_of_interface(interface);
      const std::uint16_t port = earlier.empty() ? 0 : runtime::read_host_and_port(earlier).port;
      if (port != 0 && listens(here, port))
        return runtime::log_info(" the node of this host still serves the run");
      nodes_.start_here(here, port, credentials_, flags_);
      address = nodes_.addresses(launch_patience(flags_), [] { return false; }).front();
    } catch (const runtime::error& x) {
      failure = x.what();
      if (!earlier.empty())
        runtime::log_warning("this host does not take part in the run again: {}", failure);
    }
    try {
      member_->report(address, failure);
    } catch (const runtime::io_error&) {  // rank 0 is gone, as wait_for_end finds
    }
  }

  static bool listens(const std::string& address, std::uint16_t port) {
    try {
      runtime::require_listener(address, port, std::chrono::seconds(1));
      return true;
    } catch (const runtime::error&) {
      return false;
    }
  }

  void pass_on(const std::string& name) const {
    try {
      member_->ask_to_end(fmt::format("{} at rank {}", name, self_.rank));
    } catch (const runtime::error& failure) {
      runtime::log_warning("cannot pass {} to rank 0: {}", name, failure.what());
    }
  }

  /// If rank 0 is gone, its run may go on: nodes here serve it to its end.
  runtime::launch_end wait_for_end() {
    constexpr int tries = 3;
    for (int tried = 1;; ++tried)
      try {
        return member_->wait_for_end();
      } catch (const runtime::io_error& failure) {
        if (tried < tries) {
          std::this_thread::sleep_for(std::chrono::seconds(1));
          continue;
        }
        if (!nodes_.empty())
          runtime::log_warning(
              "rank 0 of this launch is gone ({}): the node of this host ends with the run",
              failure.what());
        nodes_.wait_after_run(true);
        return {.exit_code = run_lost,
                .reason = "rank 0 of this launch was lost: the exit code of the run is not known",
                .first = is_first()};
      }
  }

  int told(const runtime::launch_end& end) {
    if (end.first && !end.reason.empty())
      runtime::log_error("{}", end.reason);
    nodes_.wait_after_run();
    return end.exit_code;
  }

  const training_flags& flags_;
  const meeting_place place_;
  const launch_member self_;
  own_nodes nodes_;
  launch_signals signals_;
  const clock::time_point until_;
  std::unique_ptr<runtime::meeting_member> member_;
  std::string rank_0_;  ///< address
  fs::path credentials_;
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
    return other_rank(by, flags, words).run();
  } catch (const usage_error&) {  // each host says it once
    if (by.local_rank.value_or(0) == 0)
      throw;
    return launch_refused;
  }
}

}  // namespace troupe::command
