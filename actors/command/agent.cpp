#include "actors/command/commands.hpp"
#include "actors/command/run_flag.hpp"
#include "runtime/process/host_agent.hpp"

#include <chrono>
#include <cstdint>
#include <memory>

namespace troupe::command {
namespace {

struct agent_flags {
  std::shared_ptr<std::filesystem::path> run;
  double suspicion = 10;
  std::int64_t connection = -1;
};

constexpr int patience = 10;  // times of suspicion

int be_agent(const agent_flags& flags) {
  runtime::host_agent_settings settings;
  settings.run = open_run(*flags.run).path();
  settings.behaviour.owner_patience = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(flags.suspicion * patience));
  settings.connection = runtime::descriptor(int(flags.connection));
  settings.obeys_signals = flags.connection < 0;
  return runtime::run_host_agent(std::move(settings));
}

}  // namespace

void add_agent(command_line& program) {
  auto& line = program.command(
      "agent", "starts and ends the processes of a run on this host, as its supervisor asks.");
  const auto flags = std::make_shared<agent_flags>();
  flags->run = declare_run(line);
  line.value({.name = "--suspicion-seconds",
              .type = "SECONDS",
              .unit = "seconds",
              .help = "When nobody has been there for ten times this, every process is killed."},
             real(flags->suspicion, 0.001, 1e6));
  line.value({.name = "--connection",
              .type = "N",
              .default_value = "only the socket in the run's folder",
              .help = "A descriptor that is connected to who started it."},
             whole(flags->connection, 3, 1'000'000));
  line.note(
      "A run starts its agents by itself. Whatever is killed, the agent included, no process that "
      "it has started is left, and none of theirs (docs/protocol/host_agent.md).");
  line.runs([flags] { return be_agent(*flags); });
}

}  // namespace troupe::command
