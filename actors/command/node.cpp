#include "actors/command/commands.hpp"
#include "actors/command/run_flag.hpp"
#include "actors/process/node_process.hpp"
#include "runtime/core/log.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace troupe::command {
namespace {

constexpr std::int64_t most_ports = 65535;

struct node_flags {
  std::shared_ptr<std::filesystem::path> run;
  std::int64_t process = 0, incarnation = 1;
  std::string rendezvous;
  double suspicion = 10;
};

int be_node(const node_flags& flags) {
  actors::node_process_settings settings;
  settings.run = open_run(*flags.run).path();
  settings.who = {int(flags.process), std::uint32_t(flags.incarnation)};
  settings.suspicion = flags.suspicion;
  const auto colon = flags.rendezvous.rfind(':');
  if (colon == std::string::npos || colon == 0)
    throw usage_error("--rendezvous '{}' is no HOST:PORT, as in 127.0.0.1:40123", flags.rendezvous);
  settings.address = flags.rendezvous.substr(0, colon);
  settings.port = std::uint16_t(
      parse_whole("--rendezvous", flags.rendezvous.substr(colon + 1), {1, most_ports}));
  return actors::run_node(settings);
}

}  // namespace

void add_node(command_line& program) {
  auto& line = program.command(
      "node", "hosts some of a run's workers in a process of its own, as its supervisor asks.");
  const auto flags = std::make_shared<node_flags>();
  flags->run = declare_run(line);
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
  line.value({.name = "--suspicion-seconds",
              .type = "SECONDS",
              .unit = "seconds",
              .help = "As the run has it."},
             real(flags->suspicion, 0.001, 1e6));
  line.note(
      "A run with several --processes starts its nodes by itself. A node ends when its job is "
      "over, "
      "or when nobody has been its supervisor for ten times the suspicion.");
  line.runs([flags] { return be_node(*flags); });
}

}  // namespace troupe::command
