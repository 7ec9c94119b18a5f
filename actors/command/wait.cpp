// `troupe wait` and `troupe stop`: both end with the run and its exit code.

#include "actors/command/commands.hpp"
#include "actors/command/print.hpp"
#include "actors/command/run_flag.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/process/run_control.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fmt/format.h>
#include <memory>
#include <unistd.h>

namespace troupe::command {
namespace {

constexpr const char* only_log = "supervisor";  // its lines have no prefix

/// The exit code of a run that has ended. Throws input_error for a run that died.
int told_end(const runtime::run_folder& folder, const std::optional<runtime::run_end>& end) {
  if (!end)
    throw runtime::input_error(
        "the run in '{}' died: none of its processes runs, and no end was recorded; its logs are "
        "in '{}'",
        folder.path().string(),
        folder.logs().string());
  if (end->exit_code != 0)
    runtime::log_error("the run has ended with exit code {}: {}", end->exit_code, end->reason);
  return end->exit_code;
}

int wait_for_run(const runtime::run_folder& folder, std::int64_t lines) {
  runtime::log_follower logs(folder, std::size_t(lines));
  const auto show = [&](bool all) {
    logs.give(
        [](const std::string& process, std::string_view line) {
          print_page("{}{}\n", process == only_log ? "" : "[" + process + "] ", line);
        },
        all);
    std::fflush(stdout);
  };
  const auto end
      = runtime::wait_for_end(folder, {}, [&](const runtime::run_status&) { show(false); });
  show(true);
  return told_end(folder, end);
}

std::string progress_text(const runtime::run_status& x) {
  std::uint64_t step = 0;
  for (const auto& one : x.processes)
    step = std::max(step, one.entry.progress.step);
  return fmt::format("waiting for the run to save and end, at step {}", step);
}

int stop_run(const runtime::run_folder& folder) {
  const auto status = runtime::status_of(
      folder, [](const std::string& damage) { runtime::log_warning("{}", damage); });
  if (status.condition == runtime::run_condition::ended) {
    runtime::log_info("the run has ended already, at {}", status.record.ended->at);
    return told_end(folder, status.record.ended);
  }
  if (status.condition == runtime::run_condition::died)
    return told_end(folder, std::nullopt);
  const bool asked = runtime::ask_to_end(folder, status);
  runtime::log_info("{}",
                    asked ? "asked the run to end; it finishes its step and saves"
                          : "the run was asked to end before; waiting for it");
  const bool shown = ::isatty(STDERR_FILENO) == 1;
  const auto end = runtime::wait_for_end(folder, {}, [&](const runtime::run_status& now) {
    if (shown)
      runtime::show_status_line(progress_text(now));
  });
  if (shown)
    runtime::clear_status_line();
  if (end && end->exit_code == 0)
    runtime::log_info("the run has ended in order");
  return told_end(folder, end);
}

}  // namespace

void add_wait(command_line& program) {
  auto& line = program.command("wait",
                               "shows the log of a run that was started elsewhere, until the run "
                               "ends, and exits with its code.");
  const auto folder = declare_run(line);
  const auto lines = std::make_shared<std::int64_t>(10);
  line.value({.name = "--lines",
              .type = "N",
              .unit = "lines",
              .help = "Earlier lines of each log that are shown first."},
             whole(*lines, 0, INT32_MAX));
  line.note(
      "Exit code: that of the run, at once if it has ended; 2 if it died without one, or there is "
      "no run. Ending this command does not affect the run.");
  line.runs([folder, lines] { return wait_for_run(open_run(*folder), *lines); });
}

void add_stop(command_line& program) {
  auto& line = program.command(
      "stop", "ends a run in order: it finishes its step and saves, as with Ctrl-C.");
  const auto folder = declare_run(line);
  line.note(
      "Waits until the run has ended. The run is asked only once, even if this command is "
      "repeated. Exit code: that of the run; 2 if it died without one, or there is no run.");
  line.runs([folder] { return stop_run(open_run(*folder)); });
}

}  // namespace troupe::command
