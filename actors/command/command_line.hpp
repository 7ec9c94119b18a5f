// The words of a command line: which flags there are, what they take, what is said about the wrong
// ones. Only command_line.cpp knows the library that cuts the words apart.
//
// A flag that is given twice counts as it was given last, as in Megatron-LM: scripts append.

#pragma once

#include "runtime/core/error.hpp"

#include <cstdint>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace troupe::command {

/// The command line is wrong. Exit code 2, with a hint at the command's --help.
class usage_error : public runtime::error {
 public:
  std::string command;  ///< "troupe train gpt", as far as it is known

  template <class... Args>
  explicit usage_error(fmt::format_string<Args...> text, Args&&... args)
      : error(fmt::format(text, std::forward<Args>(args)...)) {}
};

/// Takes one word that stood after a flag. Throws usage_error that names both.
using reader = std::function<void(const std::string& flag, const std::string& word)>;

/// One command, with its flags and the commands below it. One thread.
class command_line {
 public:
  using work = std::function<int()>;  ///< returns the exit code

  /// The program itself.
  command_line(std::string name, std::string about);
  ~command_line();
  command_line(const command_line&) = delete;
  command_line& operator=(const command_line&) = delete;

  /// A command below this one; without `does` it only groups others. Lives as long as this.
  command_line& command(const std::string& name, const std::string& about, work does = {});
  void runs(work does);

  /// The flags declared from here on stand under this title in the help.
  void group(std::string title);
  /// A paragraph at the end of the help.
  command_line& note(std::string text);

  /// A flag with one word after it.
  void value(const std::string& flag, const std::string& type, std::string help, reader take);
  /// A flag with `least` to `most` words. Where their number is not fixed, a second use adds.
  using list_reader = std::function<void(const std::string&, const std::vector<std::string>&)>;
  void values(const std::string& flag,
              const std::string& type,
              int least,
              int most,
              std::string help,
              list_reader take);
  /// A flag that stands alone.
  void toggle(const std::string& flag, std::string help, std::function<void()> set);
  /// Understood, but it decides nothing here; `words` 0 or 1 after it. Not in the help.
  void accepted(const std::string& flag, int words);
  /// Understood, and refused with this reason; any number of words after it. Not in the help. A
  /// flag that is declared, too, is not refused.
  void refused(const std::string& flag, const std::string& reason);
  /// Every flag that begins so and is not declared is refused with this reason.
  void refused_family(const std::string& beginning, const std::string& reason);
  /// Words without a flag, any number.
  void words(const std::string& type, std::string help, std::vector<std::string>& to);

  /// Reads the words of a command line, without the program's name, and returns what to do: the
  /// chosen command's work, or printing its help. Throws usage_error.
  work parse(const std::vector<std::string>& words);

  std::string help() const;
  const std::string& path() const { return path_; }                 ///< "troupe train gpt"
  const std::vector<std::string>& given() const { return given_; }  ///< the words after it

 private:
  struct parts;

  work parse_here_or_below(const std::vector<std::string>& words);
  work parse_flags(std::vector<std::string> words);
  std::string names_below() const;
  [[noreturn]] void refuse_command(const std::string& word) const;
  std::string why_not(const std::string& flag) const;
  /// Of the words that belong to no flag: throws with all that look like flags.
  void refuse_flags(const std::vector<std::string>& left) const;

  std::string path_;
  std::vector<std::string> given_;
  std::unique_ptr<parts> parts_;
};

// Readers -----------------------------------------------------------------------------------------

std::int64_t parse_whole(const std::string& flag,
                         const std::string& word,
                         std::int64_t least,
                         std::int64_t most);
double parse_real(const std::string& flag, const std::string& word, double least, double most);

template <class T>
struct target {
  using value = T;
};
template <class T>
struct target<std::optional<T>> {
  using value = T;
};

/// A whole number from `least` to `most`.
template <class T>
reader whole(T& to,
             std::int64_t least = 0,
             std::int64_t most = std::numeric_limits<std::int32_t>::max()) {
  return [&to, least, most](const std::string& flag, const std::string& word) {
    to = static_cast<typename target<T>::value>(parse_whole(flag, word, least, most));
  };
}

/// A finite number from `least` to `most`.
template <class T>
reader real(T& to,
            double least = std::numeric_limits<double>::lowest(),
            double most = std::numeric_limits<double>::max()) {
  return [&to, least, most](const std::string& flag, const std::string& word) {
    to = parse_real(flag, word, least, most);
  };
}

/// Any text, or a path; not a word that looks like the next flag.
template <class T>
reader text(T& to) {
  return [&to](const std::string&, const std::string& word) { to = word; };
}

/// One of a few words.
reader one_of(std::string& to, std::vector<std::string> allowed);

/// As list_reader: paths or texts, one after the other.
template <class T>
command_line::list_reader all(std::vector<T>& to) {
  return [&to](const std::string&, const std::vector<std::string>& words) {
    to.assign(words.begin(), words.end());
  };
}

/// The name that differs from `word` in the fewest letters; empty when all differ in more than a
/// third.
std::string nearest(std::string_view word, const std::vector<std::string>& names);

}  // namespace troupe::command
