// What takes the words that stand after a flag: a number, a text, one of a few words.

#pragma once

#include "actors/command/number_range.hpp"
#include "runtime/core/error.hpp"

#include <concepts>
#include <cstdint>
#include <fmt/format.h>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace troupe::command {

/// Of counts that a flag takes: exact in a double.
constexpr std::int64_t largest_count = std::int64_t{1} << 53;
constexpr std::int64_t most_workers = 1 << 16;

/// The command line, or a configuration, is wrong. Exit code 2, with a hint at the command's
/// --help.
class usage_error : public runtime::error {
 public:
  std::string command;  ///< "troupe train gpt", as far as it is known

  template <class... Args>
  explicit usage_error(fmt::format_string<Args...> text, Args&&... args)
      : error(fmt::format(text, std::forward<Args>(args)...)) {}
};

/// Takes one word that stood after a flag. Throws usage_error that names both. What else it knows
/// becomes columns of the flag's row (command_description.hpp).
struct reader {
  std::function<void(const std::string& flag, const std::string& word)> take;
  std::vector<std::string> choices = {};  ///< the only words it takes; empty: not so few
  number_range range = {};

  /// What its target is now, as a word that it would take; nothing: it is not decided. Empty for a
  /// reader that has no target.
  std::function<std::optional<std::string>()> now = {};

  reader(decltype(take) t,
         std::vector<std::string> c = {},
         std::function<std::optional<std::string>()> n = {},
         number_range r = {})
      : take(std::move(t)), choices(std::move(c)), range(r), now(std::move(n)) {}
  template <std::invocable<const std::string&, const std::string&> Take>
  reader(Take t) : take(std::move(t)) {}

  void operator()(const std::string& flag, const std::string& word) const { take(flag, word); }
};

/// Takes all words that stood after a flag.
using list_reader = std::function<void(const std::string&, const std::vector<std::string>&)>;

/// `word`, or of a longer one its beginning: for errors.
std::string shown(const std::string& word);

/// The number that `word` is. Throws usage_error that names the flag, the word and the range.
std::int64_t parse_whole(const std::string& flag, const std::string& word, whole_range range);
double parse_real(const std::string& flag, const std::string& word, real_range range);

template <class T>
struct target {
  using value = T;
};
template <class T>
struct target<std::optional<T>> {
  using value = T;
};

/// The value, or that of an optional; null: none.
template <class T>
const typename target<T>::value* decided(const T& x) {
  if constexpr (std::is_same_v<T, typename target<T>::value>)
    return &x;
  else
    return x ? &*x : nullptr;
}

/// A whole number from `least` to `most`.
template <class T>
reader whole(T& to,
             std::int64_t least = 0,
             std::int64_t most = std::numeric_limits<std::int32_t>::max()) {
  const whole_range range{least, most};
  return {[&to, range](const std::string& flag, const std::string& word) {
            to = static_cast<typename target<T>::value>(parse_whole(flag, word, range));
          },
          {},
          [&to, least, most]() -> std::optional<std::string> {
            const auto* x = decided(to);
            if (x == nullptr || std::cmp_less(*x, least) || std::cmp_greater(*x, most))
              return std::nullopt;  // a default that stands for "none"
            return std::to_string(*x);
          },
          range};
}

/// A finite number of this range.
template <class T>
reader real(T& to, real_range range) {
  return {[&to, range](const std::string& flag, const std::string& word) {
            to = parse_real(flag, word, range);
          },
          {},
          [&to]() -> std::optional<std::string> {
            const auto* x = decided(to);
            return x == nullptr ? std::nullopt : std::optional(fmt::format("{}", *x));
          },
          range};
}

/// A finite number from `least` to `most`.
template <class T>
reader real(T& to, double least, double most = std::numeric_limits<double>::max()) {
  return real(to, real_range{.least = least, .most = most});
}

/// Any text, or a path; not a word that looks like the next flag.
template <class T>
reader text(T& to) {
  return {[&to](const std::string&, const std::string& word) { to = word; },
          {},
          [&to]() -> std::optional<std::string> {
            const auto* x = decided(to);
            return x == nullptr || x->empty() ? std::nullopt : std::optional(std::string(*x));
          }};
}

/// The same of a second flag for the same target, which only the first one tells.
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
  auto now = text(to).now;
  return {[&to, allowed](const std::string& flag, const std::string& word) {
            to = chosen(flag, word, allowed);
          },
          allowed,
          std::move(now)};
}

/// A word that others know, and why it is none of ours.
struct refused_word {
  std::string word, why;
};

/// As `one_of`; what is refused is said with its reason.
template <class T>
reader one_of(T& to, std::vector<std::string> allowed, std::vector<refused_word> refused) {
  auto out = one_of(to, std::move(allowed));
  out.take = [take = out.take, refused = std::move(refused)](const std::string& flag,
                                                             const std::string& word) {
    for (const auto& x : refused)
      if (x.word == word)
        throw usage_error("{} {} is refused: {}", flag, word, x.why);
    take(flag, word);
  };
  return out;
}

/// As list_reader: paths or texts, one after the other.
template <class T>
list_reader all(std::vector<T>& to) {
  return [&to](const std::string&, const std::vector<std::string>& words) {
    to.assign(words.begin(), words.end());
  };
}

/// The name that differs from `word` in the fewest characters; empty when all differ in more than a
/// third of its letters and digits, but at least one.
std::string nearest(std::string_view word, const std::vector<std::string>& names);

}  // namespace troupe::command
