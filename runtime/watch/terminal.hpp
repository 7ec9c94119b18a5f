// Shows pages (screen.hpp) on the terminal of standard input and output, by ncurses, and reads its
// keys. Only terminal.cpp includes ncurses.
//
// One object at a time, used by one thread, the only one that takes SIGWINCH and SIGTSTP. The
// destructor gives the terminal back as it was, so the caller turns signals that end the process
// into a return or an exception.

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
  resized,  ///< or to be drawn again
  closed    ///< the terminal is gone
};

struct terminal_event {
  terminal_key key = terminal_key::none;
  char letter = 0;
};

class terminal {
 public:
  /// `ascii`: draws no other characters, also where the locale has them. Throws input_error when
  /// standard input or output is no terminal, or is one that cannot place text; the message ends
  /// with `advice`.
  terminal(bool ascii, const std::string& advice);
  ~terminal();
  terminal(const terminal&) = delete;
  terminal& operator=(const terminal&) = delete;

  int columns() const;
  int rows() const;
  bool is_ascii() const;

  /// Replaces the page; sends the differences only.
  void show(const std::vector<screen_text>& page);
  /// The next key; none after `most`, or after a signal.
  terminal_event wait(std::chrono::milliseconds most);

  /// Gives the terminal back without ncurses, before the process ends at once. Any thread.
  static void restore_at_once() noexcept;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace troupe::runtime
