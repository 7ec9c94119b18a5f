#include "actors/command/launched_run.hpp"

#include "actors/command/attended_node.hpp"
#include "actors/command/shell_words.hpp"
#include "actors/command/signals.hpp"
#include "actors/job/run.hpp"
#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/device/backend_kind.hpp"
#include "runtime/device/device.hpp"
#include "runtime/job/build.hpp"
#include "runtime/job/device_setup.hpp"
#include "runtime/launch/host_file.hpp"
#include "runtime/launch/launch_folder.hpp"
#include "runtime/process/credentials.hpp"
#include "runtime/process/host_address.hpp"
#include "runtime/process/process_id.hpp"
#include "runtime/process/run_folder.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <optional>
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

constexpr int users_fault = 2, our_fault = 3;
constexpr auto between_tries = std::chrono::milliseconds(100);
constexpr auto patience_for_names = std::chrono::seconds(5);
constexpr auto patience_for_nodes = std::chrono::seconds(20);

std::chrono::milliseconds patience_of(const training_flags& flags) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(flags.hosts.launch_timeout));
}

/// A folder that is removed with this object.
class scratch {
 public:
  scratch() : path_(runtime::new_temporary_folder()) {}
  ~scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;
  const fs::path& path() const { return path_; }

 private:
  const fs::path path_;
};

/// The nodes that this process has started. Any thread may call `end_at_once`.
class own_nodes {
 public:
  /// `host`: for messages.
  void start(const std::string& host,
             const std::vector<std::string>& command,
             const std::string& credentials) {
    const std::lock_guard lock(mutex_);
    all_.emplace_back(
        host, command, credentials, folder_.path() / ("node-" + std::to_string(all_.size())));
  }
  std::vector<std::string> addresses(clock::time_point until, const std::function<bool()>& stop) {
    std::vector<std::string> out;
    for (auto& one : all_)
      out.push_back(one.address(until, stop));
    return out;
  }
  /// Waits until all have ended by themselves, as after a run.
  void wait(std::optional<std::chrono::milliseconds> at_most) {
    const auto until = clock::now() + at_most.value_or(std::chrono::hours(24 * 365));
    for (auto& one : all_)
      while (!one.has_ended(between_tries) && clock::now() < until) {
      }
  }
  bool empty() const { return all_.empty(); }
  void end_at_once() {
    const std::lock_guard lock(mutex_);
    for (auto& one : all_)
      one.ask_to_end();
  }

 private:
  scratch folder_;
  std::mutex mutex_;  ///< of the list, not of its nodes
  std::vector<attended_node> all_;
};

std::string credentials_line(const fs::path& folder) {
  return folder.empty() ? "" : runtime::text_of(runtime::read_credentials(folder));
}

void start_here(own_nodes& nodes,
                int count,
                const std::string& address,
                const fs::path& credentials,
                const training_flags& flags) {
  const bool v6 = address.find(':') != std::string::npos;
  const auto listen = fmt::format("{}{}{}:0", v6 ? "[" : "", address, v6 ? "]" : "");
  for (int i = 0; i < count; ++i)
    nodes.start(runtime::host_name(),
                attended_node_command(
                    {"--listen", listen}, flags.job.recovery.suspicion, flags.hosts.insecure),
                credentials_line(credentials));
}

int processes_for_each(const training_flags& flags, std::size_t hosts) {
  if (!flags.given.contains("layout.processes"))
    return 1;
  const int processes = flags.job.layout.processes;
  if (processes % int(hosts) != 0)
    throw usage_error(
        "--processes {} is not a multiple of the {} hosts: each host has as many; give a multiple, "
        "or leave it out",
        processes,
        hosts);
  return processes / int(hosts);
}

void decide_world(training_flags& flags, std::size_t workers) {
  if (!flags.given.insert("layout.world").second)
    return;
  if (workers > std::size_t(runtime::most_workers))
    throw usage_error(
        "{} workers are more than {}: give --world-size", workers, runtime::most_workers);
  flags.job.layout.world = int(workers);
}

/// Devices of this host that workers use; 0 without.
std::size_t devices_here(const training_flags& flags) {
  const auto backend = flags.backend == "auto" ? runtime::chosen_backend()
                                               : runtime::backend_from(flags.backend).value();
  return backend == runtime::backend_kind::cuda ? std::size_t(runtime::open_devices().count()) : 0;
}

/// Gives the run its nodes, as if --nodes named them.
void give_nodes(training_flags& flags,
                const std::vector<std::string>& nodes,
                const fs::path& credentials) {
  for (const auto& one : nodes)
    flags.hosts.nodes += (flags.hosts.nodes.empty() ? "" : ",") + one;
  flags.hosts.credentials = credentials;
}

// ------------------------------------------------------------------ the processes of a launcher

/// Where the processes of a launch meet.
struct meeting_place {
  fs::path folder;       ///< that all see; empty: `address` and `port` are told
  fs::path credentials;  ///< given by the user; empty: those of the folder, or none
  std::string address;
  std::uint16_t port = 0;
};

std::string id_of(const launch_environment& by) {
  auto out = by.id.empty() || by.id == "none" ? fmt::format("{}-{}", by.address, by.port) : by.id;
  return by.restarts > 0 ? fmt::format("{}-{}", out, by.restarts) : out;
}

bool is_on_one_host(const launch_environment& by) {
  return by.hosts.size() == 1 || by.local_world == by.world;
}

meeting_place place_of(const launch_environment& by, const training_flags& flags) {
  meeting_place out{
      .folder = {}, .credentials = flags.hosts.credentials, .address = by.address, .port = by.port};
  const auto& save = flags.job.checkpoints.save;
  if (is_on_one_host(by))
    out.folder = runtime::launch_folder_path({}, id_of(by));
  else if (!save.empty() && flags.hosts.credentials.empty())
    out.folder = runtime::launch_folder_path(save, id_of(by));
  else if (flags.hosts.credentials.empty() && !flags.hosts.insecure)
    throw usage_error(
        "the processes of this launch by {} run on several hosts and have no common secret: give "
        "--save a folder that all hosts see; or run `troupe credentials DIR`, copy DIR to each "
        "host "
        "with its modes, and give --credentials DIR; or, in an isolated network, --insecure",
        by.launcher);
  else if (by.address.empty())
    throw usage_error(
        "{} does not say where rank 0 is: set MASTER_ADDR and MASTER_PORT for all ranks, or give "
        "--save a folder that all hosts see, without --credentials",
        by.launcher);
  return out;
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

launch_member self_of(const launch_environment& by, const std::vector<std::string>& words) {
  return {.rank = by.rank,
          .world = by.world,
          .local_rank = by.local_rank,
          .host = runtime::host_name(),
          .machine = std::to_string(runtime::steady_clock_of_machine()),
          .pid = ::getpid(),
          .build = runtime::version_text(),
          .command = words};
}

/// Signals of a process of a launch.
class launch_signals {
 public:
  explicit launch_signals(own_nodes& nodes)
      : watch_([this](const char* name) { first(name); },
               [&nodes](const char* name) {
                 nodes.end_at_once();
                 ::_exit(exit_code_of_signal(name));
               }) {}
  bool have_come() const { return !name().empty(); }
  std::string name() const {
    const std::lock_guard lock(mutex_);
    return name_;
  }
  /// Passes the first signal on, also one that has come. Returns when no call runs.
  void pass_to(std::function<void(const std::string&)> take) {
    const std::lock_guard lock(mutex_);
    take_ = std::move(take);
    if (take_ && !name_.empty())
      take_(name_);
  }

 private:
  void first(const char* name) {
    const std::lock_guard lock(mutex_);
    name_ = name;
    if (take_)
      take_(name_);
  }

  mutable std::mutex mutex_;
  std::string name_;
  std::function<void(const std::string&)> take_;
  signal_watch watch_;
};

void tell_stopped(const std::string& why) {
  runtime::log_info(" {}: stopped before the first iteration; nothing was trained or saved", why);
}

/// The address of rank 0 for the others.
std::string address_of_rank_0(const launch_environment& by,
                              const training_flags& flags,
                              const meeting_place& where) {
  if (!flags.hosts.interface.empty())
    return runtime::address_of_interface(flags.hosts.interface);
  if (is_on_one_host(by))
    return "127.0.0.1";
  if (!by.address.empty())
    try {
      const auto out = runtime::numeric_address(by.address);
      // A host often has its own name at a loopback address.
      if (!runtime::is_loopback(out) || by.address == out || by.address == "localhost")
        return out;
    } catch (const runtime::input_error&) {
      if (where.folder.empty())
        throw;
    }
  return runtime::address_of_this_host();
}

/// Rank 0, up to the end of the meeting.
class rank_0 {
 public:
  rank_0(const launch_environment& by, training_flags& flags, const std::vector<std::string>& words)
      : by_(by), flags_(flags), place_(place_of(by, flags)) {
    address_ = address_of_rank_0(by, flags, place_);
    if (!place_.folder.empty())
      folder_.emplace(place_.folder, flags.hosts.insecure || !place_.credentials.empty());
    credentials_
        = folder_ && place_.credentials.empty() ? folder_->credentials() : place_.credentials;
    meeting_ = opened(words);
    if (folder_)
      folder_->publish(address_, meeting_->port());
    if (folder_ && place_.credentials.empty())
      credentials_ = folder_->credentials();
  }

  int run(const train_work& work) {
    try {
      if (!gather())
        return 0;
      const int code = work(flags_, meeting_);
      meeting_->end(code, "");
      nodes_.wait(patience_for_nodes);
      return code;
    } catch (const usage_error& failure) {
      meeting_->end(users_fault, failure.what());
      throw;
    } catch (const std::exception& failure) {
      meeting_->end(actors::exit_code_of(failure), failure.what());
      throw;
    }
  }

 private:
  std::shared_ptr<runtime::meeting> opened(const std::vector<std::string>& words) const {
    std::optional<runtime::credentials> keys;
    if (!credentials_.empty())
      keys = runtime::read_credentials(credentials_);
    const std::uint16_t port = folder_ ? 0 : place_.port;
    try {
      return std::make_shared<runtime::meeting>(self_of(by_, words), address_, port, keys);
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
    const launch_signals signals(nodes_);
    const auto stop = [&] { return signals.have_come(); };
    const auto patience = patience_of(flags_);
    try {
      meeting_->gather(patience, stop);
      const auto hosts = meeting_->hosts().size();
      decide_world(flags_, std::max(std::size_t(by_.world), hosts * devices_here(flags_)));
      const bool alone = is_on_one_host(by_) || hosts == 1;
      const int each = alone ? 0 : processes_for_each(flags_, hosts);
      if (alone) {
        flags_.hosts.credentials.clear();
      } else {
        start_here(nodes_, each, address_, credentials_, flags_);
        flags_.hosts.local_address = address_;
      }
      const auto until = clock::now() + patience;
      auto all = meeting_->nodes(each, patience, stop);
      if (!alone) {
        all.front() = nodes_.addresses(until, stop);
        for (const auto& one : all)
          give_nodes(flags_, one, credentials_);
        runtime::log_info(" {} met on {}, started by {}",
                          runtime::counted(by_.world, "rank"),
                          runtime::counted(int(hosts), "host"),
                          by_.launcher);
      }
      if (stop())
        throw runtime::cancelled();
      return true;
    } catch (const runtime::cancelled&) {
      const auto why = signals.have_come() ? signals.name() : "asked by another rank";
      tell_stopped(why);
      meeting_->end(0, "");
      return false;
    }
  }

  const launch_environment& by_;
  training_flags& flags_;
  const meeting_place place_;
  std::string address_;
  std::optional<runtime::launch_folder> folder_;
  fs::path credentials_;
  own_nodes nodes_;
  std::shared_ptr<runtime::meeting> meeting_;
};

/// A process of another rank.
class other_rank {
 public:
  other_rank(const launch_environment& by,
             const training_flags& flags,
             const std::vector<std::string>& words)
      : flags_(flags),
        place_(place_of(by, flags)),
        self_(self_of(by, words)),
        signals_(nodes_),
        until_(clock::now() + patience_of(flags)) {}
  ~other_rank() { signals_.pass_to({}); }

  int run() {
    try {
      const auto joined = join();
      if (const auto* const end = std::get_if<runtime::launch_end>(&joined))
        return told(*end);
      signals_.pass_to([this](const std::string& name) { pass_on(name); });
      if (const int count = std::get<int>(joined))
        start(count);
      return told(wait_for_end());
    } catch (const runtime::cancelled&) {
      if (is_first())
        tell_stopped(signals_.name());
      return 0;
    } catch (const runtime::error&) {  // each host says it once
      if (is_first())
        throw;
      return users_fault;
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

  std::variant<int, runtime::launch_end> join() {
    const auto begun = clock::now();
    std::string last;
    for (;;) {
      try {
        if (const auto where = find()) {
          last = fmt::format("it listens at {} port {}", where->address, where->port);
          member_ = std::make_unique<runtime::meeting_member>(
              self_, where->address, where->port, where->credentials);
          rank_0_ = where->address;
          credentials_ = where->credentials;
          return member_->join([this] { return signals_.have_come(); });
        }
        last = fmt::format("it has not written '{}'; see that all hosts see this folder",
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
      std::this_thread::sleep_for(between_tries);
    }
  }

  void start(int count) {
    std::vector<std::string> all;
    std::string failure;
    try {
      const auto& interface = flags_.hosts.interface;
      start_here(nodes_,
                 count,
                 interface.empty() ? runtime::own_address_towards(rank_0_)
                                   : runtime::address_of_interface(interface),
                 credentials_,
                 flags_);
      all = nodes_.addresses(clock::now() + patience_of(flags_), [] { return false; });
    } catch (const runtime::error& x) {
      failure = x.what();
    }
    member_->report(all, failure);
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
        nodes_.wait(std::nullopt);
        return {.exit_code = our_fault,
                .reason = "rank 0 of this launch was lost: the exit code of the run is not known",
                .first = is_first()};
      }
  }

  int told(const runtime::launch_end& end) {
    if (end.first && !end.reason.empty())
      runtime::log_error("{}", end.reason);
    if (!nodes_.empty())
      nodes_.wait(patience_for_nodes);
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

int run_as_rank(const launch_environment& by,
                training_flags& flags,
                const std::vector<std::string>& words,
                const train_work& work) {
  try {
    refuse_contradictions(by, flags);
    if (flags.dry_run) {
      decide_world(flags, std::size_t(by.world));
      return by.rank == 0 ? work(flags, nullptr) : 0;
    }
    if (by.rank == 0)
      return rank_0(by, flags, words).run(work);
    return other_rank(by, flags, words).run();
  } catch (const usage_error&) {  // each host says it once
    if (by.local_rank.value_or(0) == 0)
      throw;
    return users_fault;
  }
}

// ------------------------------------------------------------------------- hosts of a host file

/// The command that starts a node on a host by ssh.
std::vector<std::string> by_ssh(const training_flags& flags, const std::string& host) {
  const auto& x = flags.hosts;
  std::vector<std::string> where{"--interface", x.interface};
  if (x.interface.empty()) {
    const auto address = runtime::numeric_address(runtime::without_user(host));
    const bool v6 = address.find(':') != std::string::npos;
    where = {"--listen", fmt::format("{}{}{}:0", v6 ? "[" : "", address, v6 ? "]" : "")};
  }
  auto there = "cd " + for_shell(fs::current_path().string()) + " && exec";
  for (const auto& word : attended_node_command(where, flags.job.recovery.suspicion, x.insecure))
    there += " " + for_shell(word);
  return {"/bin/sh", "-c", "exec " + x.ssh_command + " \"$@\"", "sh", host, there};
}

int run_over_host_file(training_flags& flags, const train_work& work) {
  const auto lines = runtime::read_host_file(flags.hosts.host_file);
  decide_world(flags, lines.size() * std::size_t(lines.front().slots));
  const int each = processes_for_each(flags, lines.size());
  if (flags.dry_run)
    return work(flags, nullptr);
  if (each * int(lines.size()) == 1)
    throw usage_error(
        "--hostfile {} names one host, but a run of one process runs where its command is: name "
        "more hosts, or give --processes",
        flags.hosts.host_file.string());
  const scratch folder;
  auto credentials = flags.hosts.credentials;
  if (credentials.empty() && !flags.hosts.insecure)
    runtime::make_credentials(credentials = folder.path() / "credentials", "of a host file");
  own_nodes nodes;
  {
    launch_signals signals(nodes);
    try {
      for (const auto& one : lines) {
        const auto command = by_ssh(flags, one.host);
        for (int i = 0; i < each; ++i)
          nodes.start(one.host, command, credentials_line(credentials));
      }
      give_nodes(
          flags,
          nodes.addresses(clock::now() + patience_of(flags), [&] { return signals.have_come(); }),
          credentials);
    } catch (const runtime::cancelled&) {
      tell_stopped(signals.name());
      return 0;
    }
  }
  const int code = work(flags, nullptr);
  nodes.wait(patience_for_nodes);
  return code;
}

}  // namespace

int run_launched(training_flags& flags,
                 const std::vector<std::string>& words,
                 const runtime::variable_reader& environment,
                 const train_work& work) {
  const auto by = runtime::launch_environment_of(environment);
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
