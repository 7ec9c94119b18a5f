// The log: the only thing that is global. Lines go to standard output (what the user asked to see)
// or standard error (what went wrong).

#pragma once

#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <string_view>
#include <utility>

namespace troupe::runtime {

enum class severity { debug, info, warning, error };

/// Lines below this are not written. Default: info.
void set_log_level(severity lowest);

/// From now on lines are written by a thread of their own, and nobody waits for a reader: when
/// 8,192 lines are waiting the oldest are dropped. For long runs; call it once, before other
/// threads log.
void write_log_beside();

/// From now on every line is also appended to that file, without colours, whatever reads the
/// console. What cannot be written there is lost: the console has it. Before other threads log.
/// Throws io_error when it cannot be opened.
void copy_log_to(const std::filesystem::path& file);

/// Who shows the lines of this process in place of its own console. What it is told it takes
/// without waiting for anybody. Any thread.
class log_reader {
 public:
  virtual ~log_reader() = default;
  virtual void take(severity level, std::string_view text) = 0;
  /// Stands at the bottom from now on; empty: nothing does.
  virtual void take_status_line(std::string_view text) = 0;
  /// Of the terminal on which status lines stand; 0: none shows them.
  virtual int status_line_columns() const = 0;
  virtual bool output_is_terminal() const = 0;
};

/// From now on nothing is written to standard output and error, and `to` has it; null: they have it
/// again. `to` lives until then. While no other thread logs.
void give_log_to(log_reader* to);

/// Waits until every line is written, at most so long. False: the reader hangs, and a process that
/// ends normally would hang with it. True at once without write_log_beside.
bool finish_log(std::chrono::milliseconds patience);

/// `info` and `debug` go to standard output as they are; `warning` and `error` to standard error
/// with the word in front, coloured on a terminal. What a terminal would obey is escaped, and long
/// lines of what went wrong are shortened (terminal_text.hpp). Any thread; lines are never mixed.
void log_line(severity level, std::string_view text);

/// A line at the bottom of the terminal that standard error is: lines of the log pass above it, and
/// the next call writes over it. Who calls knows that it is a terminal; one that takes nothing at
/// the moment is left alone. Any thread.
void show_status_line(std::string_view text);
/// Takes it away; nothing of it stays. May wait half a second for a line that is being written.
void clear_status_line();

/// How wide the terminal is on which status lines stand; 0: standard error is none that shows them.
int status_line_columns();

/// Whether standard output is a terminal.
bool output_is_terminal();
/// Whether standard error is a terminal that shows colours, and nobody set NO_COLOR.
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
