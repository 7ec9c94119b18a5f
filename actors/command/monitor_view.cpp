#include "actors/command/monitor_view.hpp"

#include "actors/command/monitor_keys.hpp"
#include "actors/command/monitored_run.hpp"
#include "actors/command/signals.hpp"
#include "runtime/core/thread.hpp"
#include "runtime/watch/terminal.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace troupe::command {
namespace {

using namespace std::chrono_literals;
using runtime::screen_page;
using runtime::terminal_key;

constexpr auto between_frames = 200ms;
constexpr const char* more_keys
    = "tab page  arrows, page up/down, home, end scroll  ctrl-l redraw  ? more  q quit";

/// Blocks SIGWINCH and SIGTSTP while other threads start: only the drawing thread may take them.
class held_back_signals {
 public:
  held_back_signals() {
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, SIGWINCH);
    sigaddset(&some, SIGTSTP);
    ::pthread_sigmask(SIG_BLOCK, &some, nullptr);
  }
  ~held_back_signals() { release(); }
  held_back_signals(const held_back_signals&) = delete;
  held_back_signals& operator=(const held_back_signals&) = delete;

  void release() {
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, SIGWINCH);
    sigaddset(&some, SIGTSTP);
    ::pthread_sigmask(SIG_UNBLOCK, &some, nullptr);
  }
};

/// Follows the run on its own thread, until the destructor.
class reading_thread {
 public:
  explicit reading_thread(const runtime::followed_run& run) : run_(run) {}
  ~reading_thread() {
    stop();
    if (thread_.joinable())
      thread_.join();
  }
  reading_thread(const reading_thread&) = delete;
  reading_thread& operator=(const reading_thread&) = delete;

  void start() {
    thread_ = runtime::start_thread("monitor", [this] { follow(); });
  }
  void stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }
  const runtime::shared_view& view() const { return view_; }

  /// The reason why the thread stopped following; empty while it follows. Rethrows an error if the
  /// hub has never answered.
  std::string end() const {
    const std::lock_guard lock(mutex_);
    if (thrown_ && !has_answered_)
      std::rethrow_exception(thrown_);
    return end_;
  }

 private:
  void follow() {
    std::string end;
    std::exception_ptr thrown;
    const auto pause = [this](std::chrono::milliseconds time) {
      std::unique_lock lock(mutex_);
      return !changed_.wait_for(lock, time, [this] { return stopped_; });
    };
    runtime::follower reader(run_, view_, pause, limits_for(run_));
    try {
      end = text_of(reader.follow());
    } catch (const std::exception& failure) {
      end = failure.what();
      thrown = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    end_ = std::move(end);
    thrown_ = thrown;
    has_answered_ = reader.position().has_value();
  }

  const runtime::followed_run run_;
  runtime::shared_view view_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false, has_answered_ = false;
  std::string end_;
  std::exception_ptr thrown_;
  std::jthread thread_;
};

/// State that the keys change.
struct monitor_choice {
  screen_page page = screen_page::overview;
  int scroll = 0;
  int shown_keys = 0;                       ///< 0: the usual ones, 1: more, 2: commands
  std::optional<runtime::run_view> paused;  ///< the view at the pause
  double paused_at = 0;

  void turn(int by) {
    constexpr int pages = 4;
    page = screen_page((int(page) + by + pages) % pages);
    scroll = 0;
  }
  void select(screen_page to) {
    page = to;
    scroll = 0;
  }
};

class monitor_frame {
 public:
  monitor_frame(runtime::terminal& on,
                reading_thread& of,
                monitor_keys& commands,
                monitor_choice first)
      : on_(on), of_(of), commands_(commands), choice_(std::move(first)) {}

  /// Draws if something has changed or a second has passed.
  void draw() {
    const auto end = of_.end();
    const auto now = std::int64_t(monitor_time());
    const auto changes = of_.view().changes() + commands_.changes();  // both only grow
    if (!stale_ && changes == changes_ && now == second_ && end == end_)
      return;
    stale_ = false;
    changes_ = changes;
    second_ = now;
    end_ = end;
    of_.view().look([&](const runtime::run_view& view, const std::string& connection) {
      const auto& shown = choice_.paused ? *choice_.paused : view;
      auto how = wish();
      limit_ = runtime::scroll_limit(shown, how);
      choice_.scroll = how.scroll = std::clamp(choice_.scroll, 0, limit_);
      if (commands_.line().empty())
        how.connection = view.exit_code ? "" : end.empty() ? connection : end + "  (q quits)";
      page_ = runtime::draw(shown, how);
      run_is_paused_ = view.state == "paused";
    });
    on_.show(page_);
  }

  /// Returns false for the key that ends the view.
  bool take(const runtime::terminal_event& event) {
    stale_ = stale_ || event.key != terminal_key::none;
    const int page = std::max(1, on_.rows() - 4);
    if (event.key != terminal_key::letter && event.key != terminal_key::none)
      commands_.cancel();
    switch (event.key) {
      case terminal_key::letter:
        return take_letter(event.letter);
      case terminal_key::up:
        --choice_.scroll;
        break;
      case terminal_key::down:
        ++choice_.scroll;
        break;
      case terminal_key::page_up:
        choice_.scroll -= page;
        break;
      case terminal_key::page_down:
        choice_.scroll += page;
        break;
      case terminal_key::home:
        choice_.scroll = 0;
        break;
      case terminal_key::end:
        choice_.scroll = limit_;
        break;
      case terminal_key::tab:
        choice_.turn(1);
        break;
      case terminal_key::back_tab:
        choice_.turn(-1);
        break;
      case terminal_key::closed:
        return false;
      case terminal_key::none:
      case terminal_key::resized:
        break;
    }
    return true;
  }

 private:
  runtime::screen_wish wish() const {
    runtime::screen_wish out;
    out.columns = on_.columns();
    out.rows = on_.rows();
    out.page = choice_.page;
    out.scroll = choice_.scroll;
    out.now = choice_.paused ? choice_.paused_at : monitor_time();
    out.ascii = on_.is_ascii();
    if (auto line = commands_.line(); !line.empty())
      out.keys = std::move(line);
    else if (choice_.shown_keys == 1)
      out.keys = more_keys;
    else if (choice_.shown_keys == 2)
      out.keys = monitor_keys::help();
    else if (choice_.paused)
      out.keys = "paused: p resumes  " + out.keys;
    return out;
  }

  bool take_letter(char letter) {
    if (commands_.take(letter, run_is_paused_))
      return true;
    if (letter >= '1' && letter <= '4')
      choice_.select(screen_page(letter - '1'));
    else if (letter == '?')
      choice_.shown_keys = (choice_.shown_keys + 1) % 3;
    else if (letter == 'p')
      pause();
    return letter != 'q';
  }

  void pause() {
    if (choice_.paused) {
      choice_.paused.reset();
      return;
    }
    choice_.paused_at = monitor_time();
    of_.view().look(
        [this](const runtime::run_view& view, const std::string&) { choice_.paused = view; });
  }

  runtime::terminal& on_;
  reading_thread& of_;
  monitor_keys& commands_;
  monitor_choice choice_;
  std::vector<runtime::screen_text> page_;
  std::uint64_t changes_ = 0;
  std::int64_t second_ = 0;
  std::string end_;
  int limit_ = 0;
  bool stale_ = true, run_is_paused_ = false;
};

/// Name of the caught signal, for the drawing thread. Empty: none.
class caught_signal {
 public:
  void set(const char* name) {
    const std::lock_guard lock(mutex_);
    name_ = name;
  }
  std::string name() const {
    const std::lock_guard lock(mutex_);
    return name_;
  }

 private:
  mutable std::mutex mutex_;
  std::string name_;
};

}  // namespace

double monitor_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

int show_monitor(const runtime::followed_run& run, screen_page page, bool ascii) {
  held_back_signals held;
  caught_signal caught;
  const signal_watch signals([&](const char* name) { caught.set(name); },
                             [](const char* name) {
                               runtime::terminal::restore_at_once();
                               ::_exit(exit_code_of_signal(name));
                             });
  monitor_keys commands(run);  // as the reader
  reading_thread reader(run);  // destroyed after the terminal, because it may take a second
  runtime::terminal terminal(ascii, "use --once for a page of text, or --json");
  reader.start();
  held.release();
  monitor_frame frame(terminal, reader, commands, {.page = page, .paused = {}});
  for (;;) {
    frame.draw();
    const bool more = frame.take(terminal.wait(between_frames));
    if (const auto name = caught.name(); !name.empty())
      return exit_code_of_signal(name);
    if (!more)
      return 0;
  }
}

}  // namespace troupe::command
