#include "runtime/watch/terminal.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <langinfo.h>
#include <poll.h>
#include <string>
#include <string_view>
#include <termios.h>
#include <unistd.h>

// Macros of ncurses would replace names of the standard library, such as move.
#define NCURSES_NOMACROS
#define NCURSES_WIDECHAR 1
#include <ncurses.h>

namespace troupe::runtime {
namespace {

/// Data of restore_at_once, which another thread may call without a terminal object.
struct left_terminal {
  termios before = {};
  std::array<char, 128> ending = {};
  std::size_t size = 0;
  std::atomic<bool> is_used = false;
};
left_terminal left;

std::string environment(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

bool speaks_utf8() {
  return std::string_view(::nl_langinfo(CODESET)) == "UTF-8";
}

/// Selects the locale of the environment. The host may lack the locale that ssh forwards; then uses
/// C.UTF-8 if it is one with UTF-8.
void choose_locale() {
  if (std::setlocale(LC_CTYPE, "") != nullptr)
    return;
  for (const auto* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (const auto value = environment(name); !value.empty()) {
      if (value.find("UTF-8") != std::string::npos || value.find("utf8") != std::string::npos)
        std::setlocale(LC_CTYPE, "C.UTF-8");
      return;
    }
}

/// A terminfo capability of the terminal; empty if it is missing.
std::string capability(const char* name) {
  const char* const text = ::tigetstr(name);
  // (char*)-1: terminfo has no string of this name.
  return text == nullptr || text == reinterpret_cast<char*>(-1) ? "" : text;
}

/// Colours for terminals with 256 and with 8 colours, legible on dark and on light backgrounds.
struct colour {
  screen_style style;
  short of_256, of_8;
};
constexpr colour colours[] = {{screen_style::good, 34, COLOR_GREEN},
                              {screen_style::caution, 172, COLOR_MAGENTA},
                              {screen_style::bad, 160, COLOR_RED},
                              {screen_style::curve, 33, COLOR_BLUE},
                              {screen_style::forward, 33, COLOR_BLUE},
                              {screen_style::backward, 34, COLOR_GREEN},
                              {screen_style::weights, 133, COLOR_MAGENTA},
                              {screen_style::recompute, 172, COLOR_RED}};

short pair_of(screen_style style) {
  for (std::size_t i = 0; i < std::size(colours); ++i)
    if (colours[i].style == style)
      return short(i + 1);
  return 0;
}

bool begin_colours() {
  if (!environment("NO_COLOR").empty() || !::has_colors() || ::start_color() == ERR)
    return false;
  const short behind = ::use_default_colors() == OK ? -1 : short(COLOR_BLACK);
  for (const auto& x : colours)
    ::init_pair(pair_of(x.style), COLORS >= 256 ? x.of_256 : x.of_8, behind);
  return true;
}

attr_t attributes_of(screen_style style, bool coloured) {
  switch (style) {
    case screen_style::bold:
      return A_BOLD;
    case screen_style::dim:
      return A_DIM;
    case screen_style::caution:
      return coloured ? A_NORMAL : A_BOLD;
    case screen_style::bad:
      return coloured ? A_BOLD : A_REVERSE;
    case screen_style::backward:
      return coloured ? A_NORMAL : A_BOLD;
    case screen_style::weights:
    case screen_style::recompute:
      return coloured ? A_NORMAL : A_UNDERLINE;
    default:
      return A_NORMAL;
  }
}

/// Converts UTF-8 to characters of one column each. Replaces all others by '?', such as control
/// characters and broken UTF-8.
std::wstring characters_of(std::string_view text) {
  std::wstring out;
  std::mbstate_t state = {};
  while (!text.empty()) {
    wchar_t one = L'?';
    auto size = std::mbrtowc(&one, text.data(), text.size(), &state);
    if (size == 0 || size > text.size()) {
      one = L'?';
      state = {};
      // The rest of this character.
      for (size = 1; size < text.size() && (text[size] & 0xc0) == 0x80;)
        ++size;
    }
    out += ::wcwidth(one) == 1 ? one : L'?';
    text.remove_prefix(size);
  }
  return out;
}

terminal_event event_of(int code) {
  switch (code) {
    case KEY_UP:
      return {terminal_key::up};
    case KEY_DOWN:
      return {terminal_key::down};
    case KEY_PPAGE:
      return {terminal_key::page_up};
    case KEY_NPAGE:
      return {terminal_key::page_down};
    case KEY_HOME:
      return {terminal_key::home};
    case KEY_END:
      return {terminal_key::end};
    case '\t':
      return {terminal_key::tab};
    case KEY_BTAB:
      return {terminal_key::back_tab};
    case KEY_RESIZE:
      return {terminal_key::resized};
    default:
      return code > 0 && code < 128 ? terminal_event{terminal_key::letter, char(code)}
                                    : terminal_event{};
  }
}

}  // namespace

struct terminal::state {
  std::string locale_before;
  SCREEN* screen = nullptr;
  bool ascii = false, coloured = false;

  state() : locale_before(std::setlocale(LC_CTYPE, nullptr)) {}
  ~state() {
    if (screen != nullptr) {
      ::endwin();
      left.is_used = false;
      ::delscreen(screen);
    }
    std::setlocale(LC_CTYPE, locale_before.c_str());
  }
  state(const state&) = delete;
  state& operator=(const state&) = delete;

  void open(const std::string& advice);
  void prepare_to_leave(const termios& before) const;
  terminal_event read_key() const;
};

void terminal::state::open(const std::string& advice) {
  termios before = {};
  if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDOUT_FILENO) != 1
      || ::tcgetattr(STDIN_FILENO, &before) != 0)
    throw input_error("cannot show a live page: standard input or output is not a terminal; {}",
                      advice);
  const auto kind = environment("TERM");
  if (!kind.empty() && kind != "dumb")
    screen = ::newterm(nullptr, stdout, stdin);
  if (screen == nullptr)
    throw input_error(
        "cannot show a live page: this host does not know the terminal TERM='{}'; set it, for "
        "example TERM=xterm-256color, or {}",
        kind,
        advice);
  prepare_to_leave(before);
  if (capability("cup").empty())
    throw input_error(
        "cannot show a live page: the terminal TERM='{}' cannot place text; {}", kind, advice);
  ::cbreak();
  ::noecho();
  ::nonl();
  ::intrflush(stdscr, FALSE);
  ::keypad(stdscr, TRUE);
  ::nodelay(stdscr, TRUE);
  ::curs_set(0);
  // Disables Ctrl-\, which would end the process without this destructor.
  termios now = {};
  if (::tcgetattr(STDIN_FILENO, &now) == 0) {
    now.c_cc[VQUIT] = _POSIX_VDISABLE;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &now);
    ::def_prog_mode();
  }
  coloured = begin_colours();
}

void terminal::state::prepare_to_leave(const termios& before) const {
  std::string ending;
  for (const auto* name : {"sgr0", "op", "cnorm", "rmkx", "rmcup"})
    ending += capability(name);
  left.before = before;
  left.size = std::min(ending.size(), left.ending.size());
  std::memcpy(left.ending.data(), ending.data(), left.size);
  left.is_used = true;
}

terminal_event terminal::state::read_key() const {
  constexpr int redraw = 'L' & 0x1f;  // Ctrl-L
  const int code = ::wgetch(stdscr);
  if (code == ERR)
    return {};
  if (code == redraw)
    ::clearok(curscr, TRUE);
  return code == redraw ? terminal_event{terminal_key::resized} : event_of(code);
}

terminal::terminal(bool ascii, const std::string& advice) : state_(std::make_unique<state>()) {
  choose_locale();
  state_->ascii = ascii || !speaks_utf8();
  state_->open(advice);
}

terminal::~terminal() = default;

int terminal::columns() const {
  return std::max(1, ::getmaxx(stdscr));
}

int terminal::rows() const {
  return std::max(1, ::getmaxy(stdscr));
}

bool terminal::is_ascii() const {
  return state_->ascii;
}

void terminal::show(const std::vector<screen_text>& page) {
  ::werase(stdscr);
  const int width = columns(), height = rows();
  for (const auto& x : page) {
    if (x.row < 0 || x.row >= height || x.column < 0 || x.column >= width)
      continue;
    const auto shown = characters_of(x.text);
    const auto pair = state_->coloured ? pair_of(x.style) : short(0);
    ::wattr_set(stdscr, attributes_of(x.style, state_->coloured), pair, nullptr);
    // Reports an error for the last cell of the screen, although it writes the cell.
    ::mvwaddnwstr(
        stdscr, x.row, x.column, shown.c_str(), std::min(int(shown.size()), width - x.column));
  }
  ::wattr_set(stdscr, A_NORMAL, 0, nullptr);
  ::wnoutrefresh(stdscr);
  ::doupdate();
}

terminal_event terminal::wait(std::chrono::milliseconds most) {
  if (const auto waiting = state_->read_key(); waiting.key != terminal_key::none)
    return waiting;
  pollfd at{STDIN_FILENO, POLLIN, 0};
  const int ready = ::poll(&at, 1, int(most.count()));
  if (ready < 0 && errno != EINTR)
    return {terminal_key::closed};
  const auto key = state_->read_key();
  const bool gone = ready > 0 && (at.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
  return key.key == terminal_key::none && gone ? terminal_event{terminal_key::closed} : key;
}

void terminal::restore_at_once() noexcept {
  if (!left.is_used)
    return;
  ::tcflow(STDOUT_FILENO, TCOON);  // resumes output after Ctrl-S
  ::tcsetattr(STDIN_FILENO, TCSANOW, &left.before);
  // A write error means that the terminal is gone.
  if (::write(STDOUT_FILENO, left.ending.data(), left.size) < 0)
    left.is_used = false;
}

}  // namespace troupe::runtime
