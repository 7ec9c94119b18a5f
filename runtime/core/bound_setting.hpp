// The settings of an object that have flags, without their types: a command line sets and shows
// them as words.
//
//     for (auto& x : bind_settings(job.checkpoints))
//       if (x.flag->name == word) x.set({next});
//
// Throws nothing of its own: the caller gives words that `range` and `choices` take.
//
// SETTING-3: a flag of an enumeration lists its values, and a toggle gives the value that it names.

#pragma once

#include "runtime/core/error.hpp"
#include "runtime/core/setting.hpp"

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace troupe::runtime {

/// A value that words set and show.
struct bound_words {
  number_range range = {};
  std::vector<std::string> choices = {};  ///< the only words that it takes; empty: any
  /// Sets the value; a toggle ignores the words. Null: a reader of the caller does.
  std::function<void(const std::vector<std::string>& words)> set = {};
  /// The value as a word; empty: none, or a default that stands for none. Null: the value is not
  /// shown.
  std::function<std::optional<std::string>()> now = {};
};

/// A flag of a row, bound to the member. A row with several flags has several of these.
struct bound_setting : bound_words {
  /// The name in errors: "checkpoints.save", or "precision=bf16" of a toggle that chooses a value.
  std::string name;
  const setting_flag* flag = nullptr;  ///< static
  const char* type = "";               ///< of its values; empty: a toggle
  at_resume resume = at_resume::free;

  /// Replaces the reader of the member's type by one with words of its own.
  void read_by(std::function<void(const std::vector<std::string>& words)> own) {
    static_cast<bound_words&>(*this) = {.range = flag->range, .set = std::move(own)};
  }

  bool is_toggle() const { return *type == '\0'; }
};

/// The words of a text that spaces separate.
std::vector<std::string> words_in(std::string_view text);
/// `all` with commas between them.
std::string with_commas(const std::vector<std::string>& all);
/// The shortest text with the same value.
std::string shortest_text(double x);

namespace detail {

template <class Value>
struct without_optional {
  using type = Value;
};
template <class Value>
struct without_optional<std::optional<Value>> {
  using type = Value;
};

/// Types whose values can be words.
template <class Value>
concept word_like = std::is_arithmetic_v<Value> || std::is_same_v<Value, std::string> || std::
    is_same_v<Value, std::filesystem::path> ||(std::is_enum_v<Value>&& requires(Value x) {
      to_string(x);
    });

template <class Value>
constexpr bool is_list = false;
template <word_like Value>
constexpr bool is_list<std::vector<Value>> = true;

/// Types with values that a toggle gives.
template <class Value>
constexpr bool is_given
    = std::is_arithmetic_v<Value> || std::is_enum_v<Value> || std::is_same_v<Value, std::string>;

template <class Value>
Value given_by(const setting_flag& toggle) {
  if constexpr (std::is_same_v<Value, bool>)
    return std::string_view(toggle.value) != "false";
  else if constexpr (std::is_arithmetic_v<Value> || std::is_enum_v<Value>)
    return static_cast<Value>(toggle.gives);
  else
    return toggle.value;
}

/// Converts words and values of one type. Made for a flag with values.
template <word_like Value>
struct word_form {
  number_range range;
  setting_choices<Value> choices;

  std::vector<std::string> names(const setting_flag& flag) const {
    if constexpr (std::is_same_v<Value, bool>)
      return {"on", "off"};
    else if constexpr (std::is_enum_v<Value>) {
      std::vector<std::string> out;
      for (std::size_t i = 0; i < choices.count; ++i)
        out.emplace_back(to_string(choices.values[i]));
      return out;
    } else
      return words_in(flag.choices);
  }
  Value value(const std::string& word) const {
    if constexpr (std::is_same_v<Value, bool>)
      return word == "on";
    else if constexpr (std::is_enum_v<Value>) {
      std::size_t at = 0;
      while (to_string(choices.values.at(at)) != word)
        ++at;
      return choices.values[at];
    } else if constexpr (std::is_integral_v<Value>)
      return static_cast<Value>(number_in(std::get<whole_range>(range), word).value());
    else if constexpr (std::is_floating_point_v<Value>) {
      if (const auto* whole = std::get_if<whole_range>(&range))
        return static_cast<Value>(number_in(*whole, word).value());
      return number_in(std::get<real_range>(range), word).value();
    } else
      return Value(word);
  }
  std::optional<std::string> word(const Value& value) const {
    if constexpr (std::is_same_v<Value, bool>)
      return value ? "on" : "off";
    else if constexpr (std::is_enum_v<Value>)
      return std::string(to_string(value));
    else if constexpr (std::is_integral_v<Value>) {
      auto out = std::to_string(value);
      return takes(range, out) ? std::optional(std::move(out)) : std::nullopt;
    } else if constexpr (std::is_floating_point_v<Value>)
      return shortest_text(value);
    else
      return value.empty() ? std::nullopt : std::optional(std::string(value));
  }
};

template <class Value>
number_range range_of(const setting_flag& flag) {
  const bool counts = std::is_integral_v<Value> && !std::is_same_v<Value, bool>;
  return counts && std::holds_alternative<std::monostate>(flag.range) ? whole_range{} : flag.range;
}

template <class Value>
const char* type_of(const setting_flag& flag) {
  if (*flag.type == '\0' && std::is_arithmetic_v<Value>) {
    const auto range = range_of<Value>(flag);
    if (std::holds_alternative<whole_range>(range))
      return "N";
    if (std::holds_alternative<real_range>(range))
      return "X";
  }
  return flag.type;
}

}  // namespace detail

/// Binds a member, a list or an optional value. `flag` has its range, choices and number of words.
template <class Member>
bound_words bind_words(Member& to,
                       const setting_flag& flag,
                       const setting_choices<Member>& choices = {}) {
  bound_words x;
  if constexpr (detail::is_list<Member>) {
    using value = typename Member::value_type;
    const detail::word_form<value> form{x.range = detail::range_of<value>(flag), {}};
    x.set = [&to, form](const auto& words) {
      to.clear();
      for (const auto& word : words)
        to.push_back(form.value(word));
    };
  } else if constexpr (std::is_same_v<Member, std::string>) {
    x.choices = words_in(flag.choices);
    x.set = [&to](const auto& words) { to = with_commas(words); };
    if (flag.most == 1)
      x.now = [&to]() -> std::optional<std::string> {
        return to.empty() ? std::nullopt : std::optional(to);
      };
  } else {
    using value = typename detail::without_optional<Member>::type;
    detail::word_form<value> form{x.range = detail::range_of<value>(flag), {}};
    if constexpr (std::is_enum_v<Member>)
      form.choices = choices;
    if constexpr (std::is_enum_v<value>)
      ensure(form.choices.count > 0, "SETTING-3: a flag of an enumeration lists its values");
    x.choices = form.names(flag);
    x.set = [&to, form](const auto& words) { to = form.value(words.front()); };
    x.now = [&to, form]() -> std::optional<std::string> {
      if constexpr (std::is_same_v<Member, value>)
        return form.word(to);
      else
        return to ? form.word(*to) : std::nullopt;
    };
  }
  return x;
}

namespace detail {

template <class Struct>
void bind_rows(Struct& to, const std::string& above, std::vector<bound_setting>& out);

template <class Struct, class Value>
void bind_row(const setting_row<Struct, Value>& row,
              Struct& to,
              const std::string& above,
              std::vector<bound_setting>& out) {
  auto& member = to.*row.member;
  for (const auto& flag : row.flags) {
    if (flag.name == nullptr)
      break;
    using plain = typename without_optional<Value>::type;
    bound_setting x{{}, above + row.name, &flag, type_of<plain>(flag), row.resume_of(flag)};
    if (*flag.value != '\0')
      x.name.append("=").append(flag.value);
    if constexpr (word_like<plain> || is_list<Value>)
      if (!x.is_toggle())
        static_cast<bound_words&>(x) = bind_words(member, flag, row.choices);
    if constexpr (std::is_enum_v<plain> && word_like<plain>)
      ensure(!x.is_toggle() || to_string(given_by<plain>(flag)) == flag.value,
             "SETTING-3: a toggle gives the value that it names");
    if constexpr (is_given<plain>)
      if (x.is_toggle())
        x.set = [&member, &flag](const auto&) { member = given_by<plain>(flag); };
    out.push_back(std::move(x));
  }
  if constexpr (has_fields<Value>)
    bind_rows(member, *row.name == '\0' ? above : above + row.name + ".", out);
}

template <class Struct>
void bind_rows(Struct& to, const std::string& above, std::vector<bound_setting>& out) {
  for_each_field<Struct>([&](const auto& row) { bind_row(row, to, above, out); });
}

}  // namespace detail

/// The flags of the rows of `to` and of its members, in order. Their names begin with `above`,
/// "model.". `to` outlives them.
template <has_fields Struct>
std::vector<bound_setting> bind_settings(Struct& to, const std::string& above = "") {
  std::vector<bound_setting> out;
  detail::bind_rows(to, above, out);
  return out;
}

}  // namespace troupe::runtime
