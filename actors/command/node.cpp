#include "actors/command/commands.hpp"
#include "actors/command/hosts.hpp"
#include "actors/command/run_front.hpp"
#include "actors/command/signals.hpp"
#include "actors/job/part_commands.hpp"
#include "actors/job/run.hpp"
#include "actors/process/standing_node.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/thread.hpp"
#include "runtime/job/build.hpp"
#include "runtime/process/credentials.hpp"
#include "runtime/process/host_address.hpp"
#include "runtime/process/host_agent.hpp"
#include "runtime/process/process_entry.hpp"

#include <atomic>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace troupe::command {
namespace {

struct node_flags {
  std::string listen, interface;
  std::filesystem::path credentials, run;
  double suspicion = 10;
  bool once = false, insecure = false, attended = false;
};

/// Ends the node on a signal, even if the signal arrives before the node runs.
class end_switch {
 public:
  void signalled() {
    const std::lock_guard lock(mutex_);
    signalled_ = true;
    if (end_)
      end_();
  }
  void connect(const std::function<void()>& end) {
    const std::lock_guard lock(mutex_);
    end_ = end;
    if (signalled_)
      end_();
  }

 private:
  std::mutex mutex_;
  bool signalled_ = false;
  std::function<void()> end_;
};

std::string listened_at(const std::string& host) {
  auto out = runtime::numeric_address(host);
  if (runtime::is_wildcard(out))
    throw usage_error(
        "--listen {} is not a single address: give the address by which other hosts reach this "
        "host",
        host);
  return out;
}

/// The next line of standard input; empty at its end.
std::string next_line() {
  constexpr std::size_t longest = 65536;
  std::string out;
  for (char c = 0; out.size() < longest;) {
    const auto size = ::read(STDIN_FILENO, &c, 1);
    if (size < 0 && errno == EINTR)
      continue;
    if (size <= 0 || c == '\n')
      break;
    out += c;
  }
  return out;
}

/// Ends an attended node when its command says so, or is gone before a run has begun. Later the run
/// may continue without its command.
class attendance {
 public:
  explicit attendance(std::shared_ptr<end_switch> over) : over_(std::move(over)) {}
  /// The thread reads until the process ends.
  void watch() {
    runtime::start_thread("attendance", [over = over_, begun = begun_] {
      for (;;) {
        const auto told = next_line();
        if (told == actors::node_ends_at || !*begun)
          over->signalled();
        if (told.empty())
          return;
      }
    }).detach();
  }
  std::function<void()> begins() const {
    return [begun = begun_] { *begun = true; };
  }

 private:
  std::shared_ptr<end_switch> over_;
  std::shared_ptr<std::atomic<bool>> begun_ = std::make_shared<std::atomic<bool>>(false);
};

runtime::held_run_folder folder_of(const node_flags& flags) {
  const std::vector<std::string> command{"troupe", "node", "--listen", flags.listen};
  auto out = flags.run.empty()
                 ? runtime::held_run_folder::temporary(runtime::version_text(), command)
                 : runtime::held_run_folder(flags.run, runtime::version_text(), command);
  if (flags.attended && !flags.insecure)
    runtime::write_credentials(out.credentials(), runtime::credentials_in(next_line()));
  else if (flags.attended)
    next_line();
  else if (!flags.insecure)
    runtime::copy_credentials(flags.credentials, out.credentials());
  return out;
}

/// Removes the folder in its destructor if the folder is empty.
class emptied {
 public:
  explicit emptied(std::filesystem::path folder) : folder_(std::move(folder)) {}
  ~emptied() {
    std::error_code ignored;
    std::filesystem::remove(folder_, ignored);
  }
  emptied(const emptied&) = delete;
  emptied& operator=(const emptied&) = delete;

 private:
  const std::filesystem::path folder_;
};

int stand(const node_flags& flags) {
  if (flags.listen.empty() == flags.interface.empty())
    throw usage_error(
        "give --listen ADDRESS:PORT, where runs reach this node, or --interface NAME");
  if (flags.attended && !flags.credentials.empty())
    throw usage_error("--attended reads credentials from standard input: leave out --credentials");
  if (!flags.attended && flags.credentials.empty() == !flags.insecure)
    throw usage_error(
        "--listen needs --credentials DIR, which `troupe credentials DIR` makes, or --insecure, "
        "for a network without other users: give one of them");
  const auto where = flags.interface.empty() ? runtime::read_host_and_port(flags.listen)
                                             : runtime::host_and_port{
                                                 runtime::address_of_interface(flags.interface), 0};
  if (flags.attended)
    runtime::ignore_requests_to_end();  // schedulers send signals to all processes of a job
  const auto over = std::make_shared<end_switch>();
  const signal_watch signals([&](const char*) { over->signalled(); });
  attendance attended(over);
  actors::standing_node_settings settings;
  settings.address = listened_at(where.host);
  settings.port = where.port;
  settings.begins = attended.begins();
  settings.suspicion = flags.suspicion;
  settings.once = flags.once;
  settings.insecure = flags.insecure;
  auto folder = folder_of(flags);
  if (flags.attended)
    attended.watch();
  runtime::copy_log_to(folder.log_of("standing-node"));
  warn_if_insecure(flags.insecure);
  runtime::write_entry(folder, runtime::entry_of_this_process("standing-node", "standing node"));
  const auto launch = actors::launch_of_parts(
      {.run = folder.path(), .suspicion = flags.suspicion, .insecure = flags.insecure},
      settings.address);
  settings.run = launch.run;
  settings.copies = flags.run.empty() ? runtime::new_temporary_folder() : launch.run / "runs";
  const emptied copies(settings.copies);
  settings.agent = launch.agent;
  settings.node = launch.node;
  settings.successor = [address = settings.address](const actors::run_copy& x) {
    auto out = successor_command(x.folder().path(), false, x.told().incarnation + 1);
    out.insert(out.end(), {"--address", address, "--directory", x.told().directory});
    return out;
  };
  try {
    const int code = actors::run_standing_node(
        settings, [&](const std::function<void()>& end) { over->connect(end); });
    over->connect([] {});
    folder.end(code, "");
    return code;
  } catch (const std::exception& failure) {
    over->connect([] {});
    folder.end(actors::exit_code_of(failure), failure.what());
    throw;
  }
}

}  // namespace

void add_node(command_line& program) {
  auto& line = program.command("node", "waits on its host for jobs and hosts their workers.");
  const auto flags = std::make_shared<node_flags>();
  line.value({.name = "--listen",
              .type = "ADDRESS:PORT",
              .help = "Address for runs that name it by --nodes or --spare-nodes; serves one run "
                      "at a time. Port 0: the system chooses a port, which is shown."},
             text(flags->listen));
  line.value({.name = "--interface",
              .type = "NAME",
              .help = "Instead of --listen: listens at the address of this network interface, such "
                      "as eth0, at a free port, which is shown."},
             text(flags->interface));
  line.value({.name = "--credentials",
              .type = "DIR",
              .help = "Credentials from `troupe credentials`, by which runs and this node "
                      "recognize each other."},
             text(flags->credentials));
  line.toggle("--insecure",
              "Without TLS: anyone who reaches the port can run programs as this user. Only for a "
              "network without other users.",
              [flags] { flags->insecure = true; });
  line.toggle("--once", "Ends after its first job.", [flags] { flags->once = true; });
  line.toggle("--attended",
              "For a command that starts this node: the first line of standard input has the "
              "credentials. The line `end` ends the node. So do other lines, and the end of the "
              "input, before its first job. Signals are ignored.",
              [flags] { flags->attended = true; });
  line.value(
      {.name = "--run",
       .type = "DIR",
       .default_value = "a temporary folder",
       .help = "Folder for the logs of the processes that it starts, and for `troupe status`."},
      text(flags->run));
  line.value(
      {.name = "--suspicion-seconds",
       .type = "SECONDS",
       .unit = "seconds",
       .help
       = "Timeout of the failure detector, as in the run; a run with another value is refused."},
      real(flags->suspicion, 0.001, 1e6));
  line.note(
      "Ctrl-C or SIGTERM ends it, with the processes that it has started. Runs with several "
      "--processes on one host need no node.");
  line.runs([flags] { return stand(*flags); });
}

}  // namespace troupe::command
