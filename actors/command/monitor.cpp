// `troupe monitor`: shows a run in the terminal, in a browser, as JSON lines, or runs a Lua script
// on it.

#include "actors/command/commands.hpp"
#include "actors/command/ended_run.hpp"
#include "actors/command/monitor_export.hpp"
#include "actors/command/monitor_script.hpp"
#include "actors/command/monitor_view.hpp"
#include "actors/command/monitor_web.hpp"
#include "actors/command/monitored_run.hpp"
#include "actors/command/print.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/log.hpp"
#include "runtime/watch/record_text.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <sys/ioctl.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace troupe::command {
namespace {

using nlohmann::ordered_json;

struct monitor_flags {
  std::shared_ptr<monitored_run> run;
  std::string page = "overview";
  bool once = false, json = false, ascii = false, web = false;
  std::string listen;            ///< address of the page; empty: a free port
  std::filesystem::path script;  ///< empty: none
  timeline_export timelines;
  std::optional<std::uint64_t> trace_steps;
};

constexpr std::int64_t most_traced_steps = 1000;

const std::vector<std::string> monitor_pages{"overview", "members", "timeline", "events"};

runtime::screen_page monitor_page_of(const std::string& name) {
  const auto found = std::ranges::find(monitor_pages, name);
  return runtime::screen_page(found - monitor_pages.begin());
}

bool wait_until_killed(std::chrono::milliseconds time) {
  std::this_thread::sleep_for(time);
  return true;
}

/// Counts skipped lines, and warns about the first one. A line that is not a JSON object comes from
/// a broken hub or another service.
class left_out_lines {
 public:
  void add() {
    if (++count_ == 1)
      runtime::log_warning("left out a line of the hub that is not a JSON object");
  }
  void tell_all() const {
    if (count_ > 1)
      runtime::log_warning("left out {} lines of the hub that are not JSON objects", count_);
  }

 private:
  std::uint64_t count_ = 0;
};

/// The hub's state of a run.
struct told_state final : runtime::run_listener {
  ordered_json run;
  ordered_json records = ordered_json::array();
  runtime::run_view view;
  left_out_lines left_out;

  void begin(std::string_view text) override {
    view = {};
    view.take_run(text);
    run = runtime::ordered_json_value(text);
    records = ordered_json::array();
  }
  void take(std::string_view record) override {
    if (!runtime::shallow_value(record).is_object())
      return left_out.add();
    view.take(record);
    records.push_back(runtime::ordered_json_value(record));
  }
  void connection(const std::string&) override {}
};

/// Prints each record as a JSON line.
struct printed_records final : runtime::run_listener {
  void begin(std::string_view text) override {
    ordered_json line{{"kind", "run"}};
    line.update(runtime::ordered_json_value(text));
    print_json(runtime::json_text_replacing(line));
  }
  void take(std::string_view record) override {
    const auto x = runtime::shallow_value(record);
    if (!x.is_object())
      return left_out.add();
    print_json(record);
    has_end = runtime::text_member(x, "kind") == "end";
    if (std::fflush(stdout) != 0)  // a closed pipe, because SIGPIPE is ignored
      throw runtime::io_error("cannot write the records to standard output: {}",
                              runtime::system_message(errno));
  }
  void connection(const std::string& state) override {
    if (!state.empty() && state != told)
      runtime::log_warning("{}", state);
    told = state;
  }
  bool has_end = false;
  std::string told;
  left_out_lines left_out;
};

/// Columns of the terminal; 80 for a file or a pipe.
int columns_for_page() {
  constexpr int otherwise = 80, fewest = 40;
  winsize size = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return otherwise;
  return std::max<int>(fewest, size.ws_col);
}

std::string page_of_view(const runtime::run_view& view, const monitor_flags& flags) {
  runtime::screen_wish how;
  how.columns = columns_for_page();
  how.page = monitor_page_of(flags.page);
  if (how.page != runtime::screen_page::overview) {  // rows for the whole list
    how.rows = 4;
    how.rows
        += runtime::scroll_limit(view, how) * (how.page == runtime::screen_page::timeline ? 2 : 1)
           + 2;
  }
  how.now = monitor_time();
  how.ascii = flags.ascii;
  how.keys.clear();
  auto out = runtime::plain_text(runtime::draw(view, how), how);
  while (out.ends_with("\n\n"))
    out.pop_back();
  return out;
}

int show_ended(const runtime::run_folder& folder, const monitor_flags& flags) {
  const auto status = runtime::status_of(
      folder, [](const std::string& damage) { runtime::log_warning("{}", damage); });
  if (!flags.json)
    print_page(ended_run_page(folder, status));
  else if (flags.once)
    print_json(ended_run_json(folder, status));
  else
    for (const auto& line : ended_run_lines(folder, status))
      print_json(line);
  return 0;
}

/// Names of `troupe status`.
const char* state_after(const std::optional<runtime::follow_end>& end) {
  if (!end)
    return name_of(runtime::run_condition::runs);
  return name_of(end->how == runtime::follow_outcome::died ? runtime::run_condition::died
                                                           : runtime::run_condition::ended);
}

int show_state(const runtime::followed_run& run, const monitor_flags& flags) {
  told_state state;
  runtime::follower follower(run, state, wait_until_killed, limits_for(run));
  const auto end = follower.read();
  state.left_out.tell_all();
  if (end && state.run.is_null() && run.folder)  // it ended before it answered
    return show_ended(*run.folder, flags);
  if (flags.json)
    print_json(runtime::json_text_replacing(
        ordered_json{{"run", state.run},
                     {"state", state_after(end)},
                     {"next", follower.position() ? text_of(*follower.position()) : ""},
                     {"records", state.records}}));
  else
    print_page(page_of_view(state.view, flags));
  return 0;
}

int show_records(const runtime::followed_run& run, const monitor_flags& flags) {
  printed_records printer;
  runtime::follower follower(run, printer, wait_until_killed, limits_for(run));
  const auto end = follower.follow();
  printer.left_out.tell_all();
  if (!follower.position() && run.folder)
    return show_ended(*run.folder, flags);
  if (end.how == runtime::follow_outcome::ended && !printer.has_end)  // the hub was gone before
    print_json(runtime::json_text_replacing(ordered_json{
        {"kind", "end"}, {"exit_code", end.end.exit_code}, {"reason", end.end.reason}}));
  if (end.how != runtime::follow_outcome::ended)
    runtime::log_warning("{}", text_of(end));
  return 0;
}

int monitor_run(const monitor_flags& flags) {
  if (!flags.script.empty() && (flags.once || flags.json))
    throw usage_error("--script follows the run to its end: leave out --once and --json");
  if (flags.web && (flags.once || flags.json || !flags.script.empty()))
    throw usage_error("--web shows the run in a browser: leave out --once, --json and --script");
  if (!flags.web && !flags.listen.empty())
    throw usage_error("--listen is the address of the page of --web: give --web too");
  const bool exports = !flags.timelines.trace.empty() || !flags.timelines.otlp.empty();
  if (exports && (flags.once || flags.json || flags.web || !flags.script.empty()))
    throw usage_error(
        "--trace and --otlp follow the run without a view: leave out --once, --json, --web and "
        "--script");
  if (flags.trace_steps && flags.timelines.trace.empty())
    throw usage_error("--steps is the number of steps of a trace: give --trace FILE too");
  const auto run = find_monitored_run(*flags.run);
  if (!flags.script.empty())
    return run_monitor_script(run, flags.script);
  if (run.folder) {
    const auto now = runtime::status_of(*run.folder, [](const std::string&) {}).condition;
    if (now == runtime::run_condition::ended || now == runtime::run_condition::died)
      return show_ended(*run.folder, flags);
  }
  if (exports) {
    auto how = flags.timelines;
    how.steps = flags.trace_steps.value_or(how.steps);
    return export_timelines(run, how);
  }
  if (flags.web)
    return show_monitor_page(flags.run, flags.listen);
  if (flags.once)
    return show_state(run, flags);
  if (flags.json)
    return show_records(run, flags);
  return show_monitor(run, monitor_page_of(flags.page), flags.ascii);
}

}  // namespace

void add_monitor(command_line& program) {
  auto& line = program.command("monitor",
                               "shows a live run in the terminal: loss, speed, pipeline timeline, "
                               "processes with their waits, and events.");
  const auto flags = std::make_shared<monitor_flags>();
  flags->run = declare_monitored_run(line);
  line.value(
      {.name = "--page",
       .type = "NAME",
       .help = "Page that the view shows first, or that --once prints: overview, members (the "
               "processes), timeline (the pipeline) or events."},
      one_of(flags->page, monitor_pages));
  line.toggle(
      "--once", "Prints one page as plain text and exits.", [flags] { flags->once = true; });
  line.toggle(
      "--json",
      "Prints the run and its records as JSON lines until the run ends. With --once: prints "
      "the present state as one JSON object.",
      [flags] { flags->json = true; });
  line.value({.name = "--script",
              .type = "FILE",
              .help = "Runs a Lua script on the records until the run ends, without a view. See "
                      "examples/monitoring/README.md."},
             text(flags->script));
  line.value({.name = "--trace",
              .type = "FILE",
              .help = "Writes the timelines of the next steps, as planned and as executed, for "
                      "Chrome's trace viewer or https://ui.perfetto.dev, and exits."},
             text(flags->timelines.trace));
  line.value({.name = "--steps",
              .type = "N",
              .unit = "steps",
              .default_value = "10",
              .help = "Steps of --trace. A run named by its folder reports each step, one named "
                      "by HOST:PORT about one a second."},
             whole(flags->trace_steps, 1, most_traced_steps));
  line.value({.name = "--otlp",
              .type = "URL",
              .help = "Sends the timelines of about one step a second to an OpenTelemetry "
                      "collector, such as http://127.0.0.1:4318, until the run ends."},
             text(flags->timelines.otlp));
  line.toggle(
      "--web",
      "Serves a page of the run for a browser on this host, until a signal. Prints its URL, "
      "which contains a token.",
      [flags] { flags->web = true; });
  line.value({.name = "--listen",
              .type = "HOST:PORT",
              .default_value = "a free port of 127.0.0.1",
              .help = "With --web: loopback address of the page, such as 127.0.0.1:8080."},
             text(flags->listen));
  line.toggle(
      "--no-unicode", "Draws with ASCII characters only.", [flags] { flags->ascii = true; });
  line.note(
      "Keys: 1 to 4 or tab choose the page: overview, processes, pipeline, events. Arrows, page "
      "up, page down, home and end scroll. p pauses the view; the run continues. ? shows more "
      "keys. q quits. The run never waits for a viewer.");
  line.note(
      "Commands, for a run named by its folder: P pauses or resumes the run. S saves. E evaluates. "
      "X stops the run with its last save. Each needs a y as the next key. `troupe ctl` has all "
      "commands.");
  line.note(
      "Reconnects after a lost connection, also to a successor of the supervisor's process. Reads "
      "the last state of an ended or dead run from its folder.");
  line.note(
      "Exit code 0: the run has ended, or the command is done. 2: there is no run, it refuses the "
      "token, or the script has an error. 128 + N: signal N ended this command. The exit code of "
      "the run has no effect.");
  line.runs([flags] { return monitor_run(*flags); });
}

}  // namespace troupe::command
