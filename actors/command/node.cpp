#include "actors/command/commands.hpp"
#include "actors/command/hosts.hpp"
#include "actors/command/run_flag.hpp"
#include "actors/command/signals.hpp"
#include "actors/process/node_process.hpp"
#include "actors/process/standing_node.hpp"
#include "runtime/core/log.hpp"
#include "runtime/process/credentials.hpp"
#include "runtime/process/host_address.hpp"
#include "runtime/process/host_agent.hpp"
#include "runtime/process/process_entry.hpp"
#include "runtime/trainer/build.hpp"

#include <cstdint>
#include <fmt/format.h>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace troupe::command {
namespace {

struct node_flags {
  std::filesystem::path run;
  std::optional<std::int64_t> process;
  std::int64_t incarnation = 1;
  std::string rendezvous, local_address = "127.0.0.1";
  double suspicion = 10;
  std::string listen;
  std::filesystem::path credentials;
  bool once = false, insecure = false;
};

// --- one that hosts ranks ------------------------------------------------------------------------

int be_node(const node_flags& flags) {
  actors::node_process_settings settings;
  settings.run = open_run(flags.run).path();
  settings.who = {int(flags.process.value_or(0)), std::uint32_t(flags.incarnation)};
  settings.suspicion = flags.suspicion;
  settings.listen = flags.local_address;
  settings.insecure = flags.insecure;
  const auto where = runtime::read_host_and_port(flags.rendezvous);
  settings.address = where.host;
  settings.port = where.port;
  runtime::ignore_requests_to_end();
  return actors::run_node(settings);
}

// --- one that stands, and has others started -----------------------------------------------------

/// A signal may come before there is anybody to tell.
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
        "--listen {}: no single address, and other hosts are told where this one is reached; give "
        "that address of this host",
        host);
  return out;
}

runtime::held_run_folder folder_of(const node_flags& flags) {
  const std::vector<std::string> command{"troupe", "node", "--listen", flags.listen};
  auto out = flags.run.empty()
                 ? runtime::held_run_folder::temporary(runtime::version_text(), command)
                 : runtime::held_run_folder(flags.run, runtime::version_text(), command);
  if (!flags.insecure)
    runtime::copy_credentials(flags.credentials, out.credentials());
  return out;
}

int stand(const node_flags& flags) {
  if (flags.process || !flags.rendezvous.empty())
    throw usage_error(
        "--listen is of a node that waits for jobs, --process and --rendezvous of one that such a "
        "node has started: give one of both");
  if (flags.credentials.empty() == !flags.insecure)
    throw usage_error(
        "--listen needs --credentials DIR, which `troupe credentials DIR` makes, or --insecure, "
        "where nobody else is in the network: give one of them");
  const auto where = runtime::read_host_and_port(flags.listen);
  end_switch over;
  const signal_watch signals([&](const char*) { over.signalled(); });
  actors::standing_node_settings settings;
  settings.address = listened_at(where.host);
  settings.port = where.port;
  settings.suspicion = flags.suspicion;
  settings.once = flags.once;
  settings.insecure = flags.insecure;
  auto folder = folder_of(flags);
  runtime::copy_log_to(folder.log_of("standing-node"));
  warn_if_insecure(flags.insecure);
  runtime::write_entry(folder, runtime::entry_of_this_process("standing-node", "standing node"));
  const auto run = folder.path().string();
  const own_program program(run, flags.suspicion, flags.insecure);
  settings.run = folder.path();
  settings.agent = program.agent();
  settings.node = [program, address = settings.address](const actors::node_program& x) {
    return program.node(x, address);
  };
  try {
    const int code = actors::run_standing_node(
        settings, [&](const std::function<void()>& end) { over.connect(end); });
    over.connect([] {});
    folder.end(code, "");
    return code;
  } catch (const std::exception& failure) {
    over.connect([] {});
    folder.end(exit_code_of(failure), failure.what());
    throw;
  }
}

}  // namespace

void add_node(command_line& program) {
  auto& line = program.command(
      "node",
      "waits on its host for jobs; or hosts some of a run's workers, where it was started "
      "for that.");
  const auto flags = std::make_shared<node_flags>();
  line.value({.name = "--listen",
              .type = "ADDRESS:PORT",
              .help = "It waits there for runs that name it by --nodes, and serves one at a time. "
                      "Port 0: the system chooses one, which is told."},
             text(flags->listen));
  line.value({.name = "--credentials",
              .type = "DIR",
              .help = "With --listen: what runs and this node know each other by, as `troupe "
                      "credentials` has made it."},
             text(flags->credentials));
  line.toggle("--insecure",
              "Without TLS: whoever reaches the port can run programs as this user. Only for a "
              "network that nobody else is in.",
              [flags] { flags->insecure = true; });
  line.toggle(
      "--once", "With --listen: it ends after its first job.", [flags] { flags->once = true; });
  line.value({.name = "--run",
              .type = "DIR",
              .default_value = "with --listen a temporary one",
              .help = "A folder for logs of what it starts, and for `troupe status`; of one that "
                      "hosts workers the run's."},
             text(flags->run));
  line.value({.name = "--suspicion-seconds",
              .type = "SECONDS",
              .unit = "seconds",
              .help = "As the run has it; a run that has another is refused."},
             real(flags->suspicion, 0.001, 1e6));
  line.group("What hosts workers is started with");
  line.value({.name = "--process",
              .type = "N",
              .help = "Its place in the job, from 0: which workers it hosts follows."},
             whole(flags->process, 0, most_workers));
  line.value({.name = "--incarnation",
              .type = "N",
              .help = "Which process it is of that place; older ones are refused."},
             whole(flags->incarnation, 1, UINT32_MAX));
  line.value({.name = "--rendezvous",
              .type = "HOST:PORT",
              .help = "Where the run's supervisor waits for its processes."},
             text(flags->rendezvous));
  line.value({.name = "--local-addr",
              .type = "ADDRESS",
              .help = "Of this host, where the run's other processes reach it."},
             text(flags->local_address));
  line.note(
      "Runs with several --processes on one host start their nodes by themselves. One that waits "
      "for jobs ends by Ctrl-C or SIGTERM, with what it has started. One that hosts workers ends "
      "when its job is over, or when nobody has been its supervisor for ten times the suspicion.");
  line.runs([flags] { return flags->listen.empty() ? be_node(*flags) : stand(*flags); });
}

}  // namespace troupe::command
