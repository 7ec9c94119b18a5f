// Shows pages (screen.hpp) on the terminal of standard input and output, and reads its keys. Uses
// ncurses, which only terminal.cpp includes.
//
// At most one object exists at a time. One thread uses it; all other threads must block SIGWINCH
// and SIGTSTP. The destructor restores the terminal. So the caller must turn signals that end the
// process into a return or an exception.

#pragma once

#include "runtime/watch/screen.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace troupe::runtime {

enum class terminal_key {
  none,
  letter,
  up,
  down,
  page_up,
  page_down,
  home,
  end,
  tab,
  back_tab,
  resized,  ///< also after Ctrl-L: draw again
  closed    ///< the terminal is gone
};

struct terminal_event {
  terminal_key key = terminal_key::none;
  char letter = 0;
};

class terminal {
 public:
  /// `ascii`: uses only ASCII, even if the locale has UTF-8. Throws input_error, with `advice` as
  /// the end of its message, if standard input or output is not a terminal, or if the terminal
  /// cannot place text.
  terminal(bool ascii, const std::string& advice);
  ~terminal();
  terminal(const terminal&) = delete;
  terminal& operator=(const terminal&) = delete;

  int columns() const;
  int rows() const;
  bool is_ascii() const;

  /// Shows a page. Sends only the differences to the terminal.
  void show(const std::vector<screen_text>& page);
  /// Waits for the next key. Returns `none` after `most`, or after a signal.
  terminal_event wait(std::chrono::milliseconds most);

  /// Restores the terminal without ncurses, for a process that is about to exit without
  /// destructors. Thread-safe.
  static void restore_at_once() noexcept;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace troupe::runtime
