// The process-wide log, the only global object. Requested output goes to standard output, warnings
// and errors to standard error.

#pragma once

#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <string_view>
#include <utility>

namespace troupe::runtime {

enum class severity { debug, info, warning, error };

/// Drops lines below this severity. Default: info.
void set_log_level(severity lowest);

/// Writes lines on a thread of their own, so that logging never blocks on a slow reader. Drops the
/// oldest lines once 8,192 are queued. Use it for long runs; call it once, before other threads
/// log.
void write_log_beside();

/// Appends every line to `file` too, without colours. Lines that cannot be written there go to the
/// console only. Call it before other threads log. Throws io_error if the file cannot be opened.
void copy_log_to(const std::filesystem::path& file);

/// Receives the log in place of the console. Its functions must not block. Called from any thread.
class log_reader {
 public:
  virtual ~log_reader() = default;
  virtual void take(severity level, std::string_view text) = 0;
  /// Replaces the status line; empty removes it.
  virtual void take_status_line(std::string_view text) = 0;
  /// Width of the terminal that shows status lines; 0 without one.
  virtual int status_line_columns() const = 0;
  virtual bool output_is_terminal() const = 0;
};

/// Redirects the log from standard output and error to `to`; null restores them. `to` must live
/// until then. Call it while no other thread logs.
void give_log_to(log_reader* to);

/// Sets a function that is called with each logged warning and error. The text has no prefix with
/// the severity. `watch` must not block or log. An empty function removes it. Thread-safe.
void watch_warnings(std::function<void(severity, std::string_view)> watch);

/// Waits until all lines are written, up to `patience`. False if the reader hangs; a normal process
/// exit would hang too. Returns true at once without write_log_beside.
bool finish_log(std::chrono::milliseconds patience);

/// Writes `info` and `debug` unchanged to standard output; `warning` and `error` to standard error
/// with the severity in front, coloured on a terminal. Escapes control characters and shortens long
/// lines of warnings and errors (terminal_text.hpp). Any thread; lines never mix.
void log_line(severity level, std::string_view text);

/// As log_line, for a fact that viewers get as a record of its own: the function of watch_warnings
/// is not called.
void log_recorded_line(severity level, std::string_view text);

/// Shows a line at the bottom of the terminal of standard error. Log lines pass above it; the next
/// call replaces it. The caller checks status_line_columns first. Skips a terminal that is not
/// ready. Any thread.
void show_status_line(std::string_view text);
/// Removes the status line. May wait half a second for a log line in progress.
void clear_status_line();

/// Columns of the terminal that shows status lines. 0: standard error is no such terminal, or
/// standard output is a pipe. A pipe may end in the same terminal (`| tee log`), where lines would
/// run into the bar.
int status_line_columns();

/// Redirects standard output to standard error if the reader of its pipe ends from now on. Called
/// when a signal ends the run, because Ctrl-C also ends a `tee` behind it. Any thread.
void outlive_output_reader();

bool output_is_terminal();
/// True if standard error is a terminal that shows colours and NO_COLOR is unset.
bool errors_are_coloured();

template <class... Args>
void log_info(fmt::format_string<Args...> text, Args&&... args) {
  log_line(severity::info, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
void log_warning(fmt::format_string<Args...> text, Args&&... args) {
  log_line(severity::warning, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> text, Args&&... args) {
  log_line(severity::error, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace troupe::runtime
