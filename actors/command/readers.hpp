// Readers of the words after a flag: a number, a text, one of a few words.

#pragma once

#include "runtime/core/bound_setting.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/number_range.hpp"

#include <concepts>
#include <cstdint>
#include <fmt/format.h>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::command {

using runtime::largest_count;
using runtime::number_range;
using runtime::real_range;
using runtime::whole_range;

/// The command line or a configuration is wrong. Exit code 2, with a hint to the command's --help.
class usage_error : public runtime::error {
 public:
  std::string command;  ///< "troupe train gpt", as far as it is known

  template <class... Args>
  explicit usage_error(fmt::format_string<Args...> text, Args&&... args)
      : error(fmt::format(text, std::forward<Args>(args)...)) {}
};

/// Reads one word after a flag. Throws usage_error that names both. Its other members become
/// columns of the flag's row (command_description.hpp).
struct reader {
  std::function<void(const std::string& flag, const std::string& word)> take;
  std::vector<std::string> choices = {};  ///< the only words it takes; empty: any word
  number_range range = {};
  /// The target has a value that counts only if the flag is given, or decided later.
  bool only_given = false;

  /// The target's current value as a word that `take` accepts; no value: not decided. Null for a
  /// reader without a target.
  std::function<std::optional<std::string>()> now = {};

  /// Reads a word of the value's type.
  reader(runtime::bound_words x);
  reader(decltype(take) t,
         std::vector<std::string> c = {},
         std::function<std::optional<std::string>()> n = {})
      : take(std::move(t)), choices(std::move(c)), now(std::move(n)) {}
  template <std::invocable<const std::string&, const std::string&> Take>
  reader(Take t) : take(std::move(t)) {}

  void operator()(const std::string& flag, const std::string& word) const { take(flag, word); }
};

/// Reads all words after a flag.
using list_reader = std::function<void(const std::string&, const std::vector<std::string>&)>;

/// `word` for an error message; a long word is cut.
std::string shown(const std::string& word);

/// `word` as a number. Throws usage_error that names the flag, the word and the range.
std::int64_t parse_whole(const std::string& flag, const std::string& word, whole_range range);
double parse_real(const std::string& flag, const std::string& word, real_range range);

/// A whole number from `least` to `most`.
template <class T>
reader whole(T& to,
             std::int64_t least = 0,
             std::int64_t most = std::numeric_limits<std::int32_t>::max()) {
  return runtime::bind_words(to, {.range = whole_range{least, most}});
}

/// A finite number of this range.
template <class T>
reader real(T& to, real_range range) {
  return runtime::bind_words(to, {.range = range});
}

/// A finite number from `least` to `most`.
template <class T>
reader real(T& to, double least, double most = std::numeric_limits<double>::max()) {
  return real(to, real_range{.least = least, .most = most});
}

/// Any text or path, except a word that looks like the next flag.
template <class T>
reader text(T& to) {
  return runtime::bind_words(to, {});
}

/// A reader for a second flag of the same target. Only the first flag shows the target's value.
inline reader alias(reader of) {
  of.now = {};
  return of;
}

/// `word`, if it is one of these; throws usage_error that lists them.
const std::string& chosen(const std::string& flag,
                          const std::string& word,
                          const std::vector<std::string>& allowed);

/// One of a few words. `to`: std::string, or an optional one.
template <class T>
reader one_of(T& to, std::vector<std::string> allowed) {
  auto words = runtime::bind_words(to, {});
  words.choices = std::move(allowed);
  return words;
}

/// Reads paths or texts.
template <class T>
list_reader all(std::vector<T>& to) {
  return [set = runtime::bind_words(to, {}).set](const std::string&, const auto& words) {
    set(words);
  };
}

/// The name that differs from `word` in the fewest characters. Empty if all names differ in more
/// than a third of its letters and digits (at least one).
std::string nearest(std::string_view word, const std::vector<std::string>& names);

}  // namespace troupe::command
