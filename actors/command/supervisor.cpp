#include "actors/command/commands.hpp"
#include "actors/command/run_training.hpp"
#include "actors/command/supervisor_order.hpp"
#include "actors/job/run.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/job/job_json.hpp"
#include "runtime/process/front_connection.hpp"
#include "runtime/process/run_folder.hpp"
#include "runtime/process/run_succession.hpp"
#include "runtime/process/supervisor_process.hpp"
#include "runtime/process/temporary_run.hpp"

#include <array>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <fcntl.h>
#include <memory>
#include <new>
#include <unistd.h>

namespace troupe::command {
namespace {

namespace at = runtime::supervisor_descriptor;

struct supervisor_flags {
  std::filesystem::path run;
  bool temporary = false;
  std::int64_t incarnation = 1;
  std::string address;  ///< not empty: this host is not the one of the previous supervisor
  std::filesystem::path directory;
};

/// Removes a temporary folder at the end, even if the run was refused before it took the folder.
class removed_at_the_end {
 public:
  removed_at_the_end(bool is_to_be, const std::filesystem::path& folder)
      : is_to_be_(is_to_be), folder_(folder) {}
  ~removed_at_the_end() {
    std::error_code ignored;
    if (is_to_be_)
      std::filesystem::remove_all(folder_, ignored);
  }
  removed_at_the_end(const removed_at_the_end&) = delete;
  removed_at_the_end& operator=(const removed_at_the_end&) = delete;

 private:
  const bool is_to_be_;
  const std::filesystem::path& folder_;
};

/// Removes the temporary folder of a successor. Keeps it for a front that still follows the run and
/// removes it later, and for the next successor of a run that has not ended.
class removed_when_ended {
 public:
  explicit removed_when_ended(const std::filesystem::path& folder)
      : folder_(runtime::run_folder::open(folder)) {}
  ~removed_when_ended() { runtime::remove_temporary_of_ended(folder_); }
  removed_when_ended(const removed_when_ended&) = delete;
  removed_when_ended& operator=(const removed_when_ended&) = delete;

 private:
  const runtime::run_folder folder_;
};

std::string read_order() {
  const runtime::descriptor file(at::order);
  std::string out;
  std::array<char, 65536> bytes;
  for (;;) {
    const auto size = ::read(file.number(), bytes.data(), bytes.size());
    if (size > 0)
      out.append(bytes.data(), std::size_t(size));
    else if (size == 0)
      return out;
    else if (errno != EINTR)
      throw usage_error(
          "cannot read the job: `troupe train` with --processes starts this command; do not start "
          "it by hand");
  }
}

runtime::end_told told_of(const std::exception& failure) {
  using runtime::complaint;
  const bool is_memory = dynamic_cast<const std::bad_alloc*>(&failure) != nullptr;
  const int code = actors::exit_code_of(failure);
  return {.exit_code = code,
          .kind = is_memory   ? complaint::memory
                  : code == 2 ? complaint::input
                              : complaint::fault,
          .text = failure.what()};
}

/// The order. If it comes from another host, replaces the address and removes the front.
std::string order_here(const runtime::run_folder& folder, const supervisor_flags& flags) {
  auto text = runtime::read_order(folder);
  if (flags.address.empty())
    return text;
  std::error_code failure;
  std::filesystem::current_path(flags.directory, failure);
  if (failure)
    throw runtime::input_error(
        "cannot continue the run in '{}': there is no folder '{}', in which its command was "
        "started: {}",
        folder.path().string(),
        flags.directory.string(),
        failure.message());
  auto order = read_supervisor_order(text);
  order.front = {};
  order.terminal = {};
  order.hosts.address = flags.address;
  order.moved = true;
  text = text_of(order);
  runtime::write_order(folder, text);  // for a successor of this process
  return text;
}

/// Runs as a successor, started by the host's agent or its node, without a front.
int be_successor(const supervisor_flags& flags) {
  const auto text = order_here(runtime::run_folder::open(flags.run), flags);
  const auto order = read_supervisor_order(text);
  const auto job = runtime::job_from_json(order.job);
  const removed_when_ended folder(flags.run);
  return run_training(job,
                      {.configuration = order.configuration,
                       .command = order.command,
                       .run_folder = flags.run,
                       .temporary = flags.temporary,
                       .hosts = order.hosts,
                       .order = text,
                       .incarnation = std::uint32_t(flags.incarnation),
                       .moved = order.moved});
}

int be_supervisor(const supervisor_flags& flags) {
  if (flags.run.empty())
    throw usage_error("--run is missing: give the run's folder");
  if (flags.incarnation > 1)
    return be_successor(flags);
  const auto text = read_order();
  const auto order = read_supervisor_order(text);
  const removed_at_the_end folder(flags.temporary, flags.run);
  for (const int number : {STDOUT_FILENO, STDERR_FILENO})
    ::dup2(at::console, number);  // has no effect if the front has no console
  ::close(at::console);
  ::fcntl(at::front, F_SETFD, FD_CLOEXEC);
  const auto job = runtime::job_from_json(order.job);
  runtime::front_connection front(
      runtime::descriptor(at::front), runtime::beat_of(job.recovery.suspicion), order.terminal);
  try {
    return run_training(job,
                        {.configuration = order.configuration,
                         .command = order.command,
                         .run_folder = flags.run,
                         .temporary = flags.temporary,
                         .hosts = order.hosts,
                         .front = &front,
                         .order = text});
  } catch (const std::exception& failure) {
    const auto end = told_of(failure);
    front.end(end, reader_patience);
    return end.exit_code;
  }
}

}  // namespace

void add_supervisor(command_line& program) {
  auto& line = program.command(
      "supervisor",
      "hosts the supervisor of a run of several processes; `troupe train` starts it.");
  const auto flags = std::make_shared<supervisor_flags>();
  line.value({.name = "--run", .type = "DIR", .help = "Folder of the run."}, text(flags->run));
  line.toggle(
      "--temporary", "Removes the folder at the end.", [flags] { flags->temporary = true; });
  line.value({.name = "--incarnation",
              .type = "N",
              .help = "Above 1: replaces a supervisor that has ended."},
             whole(flags->incarnation, 1, UINT32_MAX));
  line.value({.name = "--address",
              .type = "ADDRESS",
              .help = "With --incarnation: address of this host, if the previous supervisor was on "
                      "another one."},
             text(flags->address));
  line.value({.name = "--directory",
              .type = "DIR",
              .help = "With --address: folder in which the run's relative paths begin."},
             text(flags->directory));
  line.note(
      "Do not start it by hand: `troupe train` starts it and sends the job over a descriptor "
      "(docs/protocol/front.md). It continues if that command ends.");
  line.runs([flags] { return be_supervisor(*flags); });
}

}  // namespace troupe::command
