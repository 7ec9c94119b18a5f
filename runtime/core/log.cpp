#include "runtime/core/log.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/log_words.hpp"
#include "runtime/core/terminal_text.hpp"

#include <spdlog/async.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <memory>
#include <mutex>
#include <poll.h>
#include <string>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace troupe::runtime {
namespace {

constexpr std::size_t waiting_lines = 8192;

constexpr const char* clear_line = "\r\x1b[K";

/// The status line at the bottom of the terminal. Status updates never wait for a stopped terminal.
/// The log's writer may wait for it: it runs on a thread of its own and holds the mutex meanwhile.
class bottom_line {
 public:
  void show(std::string_view text) {
    set(std::string(text));
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock.owns_lock() && takes_something())  // otherwise `pass` draws it
      put(clear_line + text_now());
  }

  /// Waits up to `patience` for a log line in progress, so that the status line does not stay.
  void clear() {
    const std::unique_lock lock(mutex_, patience);
    if (!lock.owns_lock() || text_now().empty())
      return;
    if (takes_something())
      put(clear_line);
    set("");
  }

  /// Writes a log line above the status line.
  template <class Write>
  void pass(const Write& write) {
    const std::lock_guard lock(mutex_);
    if (!text_now().empty())
      put(clear_line);
    write();
    put(text_now());
  }

 private:
  static bool takes_something() {
    pollfd terminal{STDERR_FILENO, POLLOUT, 0};
    return ::poll(&terminal, 1, 0) == 1 && (terminal.revents & POLLOUT) != 0;
  }

  // A partial write of a status line is harmless.
  static void put(const std::string& text) {
    [[maybe_unused]] const auto taken = ::write(STDERR_FILENO, text.data(), text.size());
  }

  std::string text_now() const {
    const std::lock_guard lock(text_mutex_);
    return text_;
  }
  void set(std::string text) {
    const std::lock_guard lock(text_mutex_);
    text_ = std::move(text);
  }

  static constexpr auto patience = std::chrono::milliseconds(500);

  std::timed_mutex mutex_;  ///< guards the terminal
  mutable std::mutex text_mutex_;
  std::string text_;  ///< the latest, drawn or not
};

bool is_pipe(int file) {
  struct stat found = {};
  return ::fstat(file, &found) == 0 && (S_ISFIFO(found.st_mode) || S_ISSOCK(found.st_mode));
}

std::atomic<bool> outlives_output_reader = false;

void replace_gone_output() {
  pollfd output{STDOUT_FILENO, 0, 0};
  if (!outlives_output_reader || ::poll(&output, 1, 0) != 1 || (output.revents & POLLERR) == 0)
    return;
  if (::dup2(STDERR_FILENO, STDOUT_FILENO) == STDOUT_FILENO)
    std::clearerr(stdout);
}

/// Counts written lines for finish_log.
class counting_sink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  counting_sink(spdlog::sink_ptr to, bottom_line& above) : to_(std::move(to)), above_(above) {}
  std::uint64_t written() const { return written_; }

 protected:
  void sink_it_(const spdlog::details::log_msg& line) override {
    above_.pass([&] {
      replace_gone_output();
      to_->log(line);
      to_->flush();
    });
    ++written_;
  }
  void flush_() override { to_->flush(); }
  void set_pattern_(const std::string& pattern) override { to_->set_pattern(pattern); }
  void set_formatter_(std::unique_ptr<spdlog::formatter> formatter) override {
    to_->set_formatter(std::move(formatter));
  }

 private:
  spdlog::sink_ptr to_;
  bottom_line& above_;
  std::atomic<std::uint64_t> written_ = 0;
};

/// Appends every line to a file too.
class copy_sink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit copy_sink(int file) : file_(file) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& line) override {
    spdlog::memory_buf_t text;
    formatter_->format(line, text);
    // One write per line, because other processes may append too. A full disk loses lines only
    // here.
    [[maybe_unused]] const auto written = ::write(file_, text.data(), text.size());
  }
  void flush_() override {}

 private:
  int file_;
};

severity severity_of(spdlog::level::level_enum x) {
  switch (x) {
    case spdlog::level::trace:
    case spdlog::level::debug:
      return severity::debug;
    case spdlog::level::info:
      return severity::info;
    case spdlog::level::warn:
      return severity::warning;
    default:
      return severity::error;
  }
}

class given_sink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit given_sink(log_reader& to) : to_(to) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& line) override {
    to_.take(severity_of(line.level), {line.payload.data(), line.payload.size()});
  }
  void flush_() override {}

 private:
  log_reader& to_;
};

struct log_state {
  bottom_line bottom;
  std::atomic<log_reader*> reader = nullptr;
  std::shared_ptr<counting_sink> out_sink, err_sink;
  std::shared_ptr<spdlog::details::thread_pool> writer;  ///< null: lines are written synchronously
  std::shared_ptr<spdlog::logger> out, err;
  std::atomic<std::uint64_t> posted = 0;  ///< lines handed to the writer
  int copy = -1;                          ///< descriptor of copy_log_to
  std::string (*words)(std::string_view) = nullptr;

  log_state() {
    choose_sinks();
    open();
  }

  void choose_sinks() {
    spdlog::sink_ptr output, errors;
    if (auto* const to = reader.load()) {
      output = std::make_shared<given_sink>(*to);
      errors = std::make_shared<given_sink>(*to);
    } else {
      output = std::make_shared<spdlog::sinks::stdout_sink_mt>();
      errors = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(
          errors_are_coloured() ? spdlog::color_mode::always : spdlog::color_mode::never);
    }
    out_sink = std::make_shared<counting_sink>(output, bottom);
    err_sink = std::make_shared<counting_sink>(errors, bottom);
  }

  void open() {
    const auto level = out == nullptr ? spdlog::level::info : out->level();
    out = make("out", out_sink, "%v");
    err = make("err", err_sink, "troupe: %^%l%$: %v");
    out->set_level(level);
    err->set_level(level);
  }

  std::shared_ptr<spdlog::logger> make(const char* name,
                                       const spdlog::sink_ptr& sink,
                                       const char* pattern) const {
    std::vector<spdlog::sink_ptr> to;
    if (copy >= 0)
      to.push_back(std::make_shared<copy_sink>(copy));
    to.push_back(sink);  // last: a counted line has reached all sinks
    const auto logger = writer == nullptr
                            ? std::make_shared<spdlog::logger>(name, to.begin(), to.end())
                            : std::make_shared<spdlog::async_logger>(
                                name,
                                to.begin(),
                                to.end(),
                                writer,
                                spdlog::async_overflow_policy::overrun_oldest);
    logger->set_pattern(pattern);
    return logger;
  }
};

/// Function of watch_warnings. Never destroyed, as state().
class warning_watch {
 public:
  void set(std::function<void(severity, std::string_view)> by) {
    auto made = by ? std::make_shared<const function>(std::move(by)) : nullptr;
    const std::lock_guard lock(mutex_);
    by_.swap(made);
  }
  void tell(severity level, std::string_view text) {
    std::shared_ptr<const function> by;
    {
      const std::lock_guard lock(mutex_);
      by = by_;
    }
    if (by)
      (*by)(level, text);
  }

 private:
  using function = std::function<void(severity, std::string_view)>;
  std::mutex mutex_;
  std::shared_ptr<const function> by_;
};

warning_watch& watched_warnings() {
  static auto* const it = new warning_watch;
  return *it;
}

// Never destroyed: its writer thread may hang on a reader that does not read.
log_state& state() {
  static auto* const it = new log_state;
  return *it;
}

spdlog::level::level_enum level_of(severity x) {
  switch (x) {
    case severity::debug:
      return spdlog::level::debug;
    case severity::info:
      return spdlog::level::info;
    case severity::warning:
      return spdlog::level::warn;
    case severity::error:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

void write_line(severity level, std::string_view text, bool is_recorded) {
  auto& log = state();
  const bool output = level == severity::debug || level == severity::info;
  auto& by = output ? log.out : log.err;
  if (!by->should_log(level_of(level)))
    return;
  const auto worded = log.words != nullptr ? log.words(text) : std::string(text);
  const auto said = output ? without_control(worded) : message_text(worded);
  if (!output && !is_recorded)
    watched_warnings().tell(level, said);
  if (log.writer != nullptr)
    ++log.posted;
  by->log(level_of(level), spdlog::string_view_t(said.data(), said.size()));
}

}  // namespace

void set_log_level(severity lowest) {
  state().out->set_level(level_of(lowest));
  state().err->set_level(level_of(lowest));
}

void write_log_beside() {
  auto& log = state();
  log.writer = std::make_shared<spdlog::details::thread_pool>(waiting_lines, 1);
  log.open();
}

void copy_log_to(const std::filesystem::path& file) {
  constexpr mode_t own = 0600;
  const int to = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, own);
  if (to < 0)
    throw io_error("cannot write the log to '{}': {}", file.string(), system_message(errno));
  auto& log = state();
  log.copy = to;  // an earlier copy stays open: queued lines may still go there
  log.open();
}

void give_log_to(log_reader* to) {
  auto& log = state();
  log.reader = to;
  log.choose_sinks();
  log.open();
}

void outlive_output_reader() {
  outlives_output_reader = true;
}

bool finish_log(std::chrono::milliseconds patience) {
  auto& log = state();
  if (log.writer == nullptr)
    return true;
  const auto done = [&log] {
    return log.out_sink->written() + log.err_sink->written() + log.writer->overrun_counter()
           >= log.posted;
  };
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!done()) {
    if (std::chrono::steady_clock::now() > until)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  replace_gone_output();  // it may have gone during the last line
  return true;
}

void show_status_line(std::string_view text) {
  if (auto* const reader = state().reader.load())
    reader->take_status_line(text);
  else
    state().bottom.show(text);
}

void clear_status_line() {
  if (auto* const reader = state().reader.load())
    reader->take_status_line({});
  else
    state().bottom.clear();
}

int status_line_columns() {
  if (const auto* const reader = state().reader.load())
    return reader->status_line_columns();
  const char* const kind = std::getenv("TERM");
  if (::isatty(STDERR_FILENO) != 1 || kind == nullptr || *kind == '\0'
      || std::string_view(kind) == "dumb" || is_pipe(STDOUT_FILENO))
    return 0;
  constexpr int usual = 80;
  winsize size = {};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : usual;
}

bool output_is_terminal() {
  if (const auto* const reader = state().reader.load())
    return reader->output_is_terminal();
  return ::isatty(STDOUT_FILENO) == 1;
}

bool errors_are_coloured() {
  const char* const kind = std::getenv("TERM");
  const char* const none = std::getenv("NO_COLOR");
  return ::isatty(STDERR_FILENO) == 1 && kind != nullptr && *kind != '\0'
         && std::string_view(kind) != "dumb" && (none == nullptr || *none == '\0');
}

void set_log_words(std::string (*words)(std::string_view)) {
  state().words = words;
}

void watch_warnings(std::function<void(severity, std::string_view)> watch) {
  watched_warnings().set(std::move(watch));
}

void log_line(severity level, std::string_view text) {
  write_line(level, text, false);
}

void log_recorded_line(severity level, std::string_view text) {
  write_line(level, text, true);
}

}  // namespace troupe::runtime
