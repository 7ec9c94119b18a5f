// Filters of texts and numbers. filters_of_lists.cpp has the other filters.

#include "runtime/template/filters.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace troupe::runtime::jinja {
namespace {

template <class Change>
value changed_text(evaluator& with, const value& to, const arguments& given, Change&& change) {
  const given_arguments got(with, "this filter", given, {});
  const auto text = text_of(with.use, to);
  with.use.look_at(text.size());
  auto out = change(text);
  return to.is_marked() ? value::marked(std::move(out)) : value(std::move(out));
}

value trim(evaluator& with, const value& to, const arguments& given) {
  const given_arguments got(with, "|trim", given, {"chars"});
  const auto text = text_of(with.use, to);
  const auto bare = stripped_by(with, text, got, side::both);
  return to.is_marked() ? value::marked(std::string(bare)) : value(bare);
}

value replace(evaluator& with, const value& to, const arguments& given) {
  const given_arguments got(with, "|replace", given, {"old", "new", "count"});
  const auto text = text_of(with.use, to);
  const auto before = text_of(with.use, got.required(0));
  const auto after = text_of(with.use, got.required(1));
  auto left = got[2] == nullptr || got[2]->is<none>() ? -1 : got.whole(2, -1);
  with.use.step(text.size() / 8);
  std::string out;
  const auto add = [&](std::string_view more) {
    with.use.make_text(more.size());
    out += more;
  };
  std::size_t at = 0;
  if (before.empty()) {
    for (; left != 0 && at <= text.size(); --left) {
      add(after);
      if (at == text.size())
        return out;
      const auto begin = at;
      next_character(text, at);
      add(std::string_view(text).substr(begin, at - begin));
    }
  } else
    for (auto found = first_of(text, before); left != 0 && found != std::string::npos;
         found = first_of(text, before, at), --left) {
      add(std::string_view(text).substr(at, found - at));
      add(after);
      at = found + before.size();
    }
  add(std::string_view(text).substr(std::min(at, text.size())));
  return out;
}

value indent(evaluator& with, const value& to, const arguments& given) {
  const given_arguments got(with, "|indent", given, {"width", "first", "blank"});
  const auto by = got[0] != nullptr && got[0]->text() != nullptr
                      ? got.text(0)
                      : repeat_text(with, " ", got.whole(0, 4));
  const bool blank = got.truth(2, false);
  const auto text = text_of(with.use, to) + "\n";  // as in Jinja, to keep a final line end
  with.use.look_at(text.size());
  std::string out = got.truth(1, false) ? by : "";
  bool first = true;
  for_each_line(text, false, [&](std::string_view line) {
    with.use.make_text(line.size() + by.size() + 1);
    if (!std::exchange(first, false))
      out += line.empty() && !blank ? "\n" : "\n" + by;
    out += line;
  });
  return out;
}

/// Removes underscores between two digits, which Python allows; nullopt for other underscores.
/// `letters`: letters count as digits.
std::optional<std::string> without_underscores(std::string_view text, bool letters) {
  std::string out;
  const auto is_digit = [&](std::size_t i) {
    const auto c = i < text.size() ? static_cast<unsigned char>(text[i]) : ' ';
    return letters ? std::isalnum(c) != 0 : std::isdigit(c) != 0;
  };
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] != '_')
      out += text[i];
    else if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1))
      return std::nullopt;
  return out;
}

std::optional<std::int64_t> parsed_whole(std::string_view text, int base) {
  text = stripped(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+'))
    text.remove_prefix(1);
  const char prefix = base == 2 ? 'b' : base == 8 ? 'o' : base == 16 ? 'x' : '\0';
  if (prefix != '\0' && text.size() > 2 && text[0] == '0' && (text[1] | 0x20) == prefix)
    text.remove_prefix(text[2] == '_' ? 3 : 2);
  const auto plain = without_underscores(text, true);
  if (!plain)
    return std::nullopt;
  const auto& digits = *plain;
  std::uint64_t out = 0;
  const auto* end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, out, base);
  if (digits.empty() || read.ptr != end || read.ec != std::errc() || out > std::uint64_t(INT64_MAX))
    return std::nullopt;
  return negative ? -std::int64_t(out) : std::int64_t(out);
}

std::optional<double> parsed_real(std::string_view text) {
  const auto plain = without_underscores(stripped(text), false);
  if (!plain)
    return std::nullopt;
  const char *begin = plain->data(), *const end = begin + plain->size();
  if (begin != end && *begin == '+' && !std::string_view(*plain).starts_with("+-"))
    ++begin;
  double out = 0;
  const auto read = std::from_chars(begin, end, out);
  if (begin == end || read.ptr != end || end[-1] == ')')  // nan(...)
    return std::nullopt;
  if (read.ec == std::errc::result_out_of_range)
    return std::strtod(begin, nullptr);  // infinity, or 0
  return out;
}

value cut_to_whole(evaluator& with, double x) {
  if (std::abs(x) >= 9.2e18)
    with.use.fail(fmt::format("the integer of {} needs more than 64 bits", x));
  return std::int64_t(x);
}

value to_int(evaluator& with, const value& to, const arguments& given) {
  const given_arguments got(with, "|int", given, {"default", "base"});
  require_defined(with, to);
  const auto base = got.whole(1, 10);
  if (base < 2 || base > 36)
    with.use.fail("|int: 'base' must be from 2 to 36");
  if (const auto x = to.whole())
    return *x;
  if (const auto x = to.real(); x && std::isfinite(*x))
    return cut_to_whole(with, *x);
  if (const auto* text = to.text()) {
    with.use.step(text->size() / 8);
    if (const auto x = parsed_whole(*text, int(base)))
      return *x;
    if (const auto x = parsed_real(*text); x && std::isfinite(*x))
      return cut_to_whole(with, *x);
  }
  return got[0] != nullptr ? *got[0] : value(std::int64_t{0});
}

value to_float(evaluator& with, const value& to, const arguments& given) {
  const given_arguments got(with, "|float", given, {"default"});
  require_defined(with, to);
  if (const auto x = to.real())
    return *x;
  if (const auto* text = to.text()) {
    with.use.step(text->size() / 8);
    if (const auto x = parsed_real(*text))
      return *x;
  }
  return got[0] != nullptr ? *got[0] : value(0.0);
}

value absolute(evaluator& with, const value& to, const arguments& given) {
  const given_arguments got(with, "|abs", given, {});
  require_defined(with, to);
  if (const auto x = to.whole())
    return *x < 0 ? negated(with, *x) : value(*x);
  if (const auto x = to.real())
    return std::abs(*x);
  with.use.fail(fmt::format("|abs of a '{}'", type_name(to)));
}

value round_number(evaluator& with, const value& to, const arguments& given) {
  const given_arguments got(with, "|round", given, {"precision", "method"});
  require_defined(with, to);
  const auto precision = got.whole(0, 0);
  const auto how = got[1] != nullptr ? got.text(1) : "common";
  if (how != "common" && how != "ceil" && how != "floor")
    with.use.fail("|round: 'method' must be common, ceil or floor");
  if (!to.real())
    with.use.fail(fmt::format("|round of a '{}'", type_name(to)));
  if (precision < 0 || precision > 300)
    with.use.fail("|round: 'precision' must be from 0 to 300");
  const auto x = *to.real();
  if (how != "common") {
    const auto scale = std::pow(10.0, double(precision));
    return (how == "ceil" ? std::ceil(x * scale) : std::floor(x * scale)) / scale;
  }
  if (to.whole())
    return *to.whole();
  if (!std::isfinite(x))
    return x;
  // Printing rounds like Python: by the digits of the exact number.
  return std::strtod(fmt::format("{:.{}f}", x, int(precision)).c_str(), nullptr);
}

value to_json(evaluator& with, const value& to, const arguments& given) {
  const given_arguments got(
      with, "|tojson", given, {"ensure_ascii", "indent", "separators", "sort_keys"});
  json_style style{.ascii = got.truth(0, false), .sort_keys = got.truth(3, false)};
  if (got[1] != nullptr && !got[1]->is<none>()) {
    style.indent
        = got[1]->text() != nullptr ? got.text(1) : repeat_text(with, " ", got.whole(1, 0));
    style.between = std::string(1, ',');  // GCC 12 warns of an overlap when "," is assigned
  }
  if (got[2] != nullptr && !got[2]->is<none>()) {
    const auto both = elements_of(with.use, *got[2]);
    if (both.size() != 2 || both[0].text() == nullptr || both[1].text() == nullptr)
      with.use.fail("|tojson: 'separators' must be two texts");
    with.use.make_text(both[0].text()->size() + both[1].text()->size());
    style.between = *both[0].text();
    style.after_key = *both[1].text();
  }
  return json_of(with.use, to, style);
}

value otherwise(evaluator& with, const value& to, const arguments& given) {
  const given_arguments got(with, "|default", given, {"default_value", "boolean"});
  const bool missing = to.is<undefined>() || (got.truth(1, false) && !truth(to));
  if (!missing)
    return to;
  return got[0] != nullptr ? *got[0] : value(std::string());
}

value safe(evaluator& with, const value& to, const arguments& given) {
  const given_arguments got(with, "|safe", given, {});
  return value::marked(text_of(with.use, to));
}

/// |format, like Python's %, with the conversions that templates use.
value format_text(evaluator& with, const value& to, const arguments& given) {
  if (!given.named.empty())
    with.use.fail("|format takes no arguments by name here");
  const auto text = text_of(with.use, to);
  std::string out;
  std::size_t used = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    const char how = ++i < text.size() ? text[i] : ' ';
    if (how == '%') {
      out.push_back('%');
      continue;
    }
    if (how != 's' && how != 'r' && how != 'd')
      with.use.fail("|format supports %s, %r, %d and %% only");
    if (used == given.positional.size())
      with.use.fail("|format has fewer arguments than its text needs");
    const auto& one = given.positional[used++];
    if (how == 'd' && !one.whole())
      with.use.fail(fmt::format("|format: %d of a '{}'", type_name(one)));
    out += how == 's'   ? text_of(with.use, one)
           : how == 'r' ? repr_of(with.use, one)
                        : fmt::format("{}", *one.whole());
  }
  if (used != given.positional.size())
    with.use.fail("|format has more arguments than its text needs");
  with.use.make_text(out.size());
  return out;
}

value word_count(evaluator& with, const value& to, const arguments& given) {
  const given_arguments got(with, "|wordcount", given, {});
  const auto text = text_of(with.use, to);
  with.use.look_at(text.size());
  std::int64_t count = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const auto begin = at;
    next_character(text, at);
    const auto one = std::string_view(text).substr(begin, at - begin);
    const bool word = one == "_" || is_letters_or_digits(one);
    count += word && !inside;
    inside = word;
  }
  return count;
}

}  // namespace

std::string_view stripped_by(evaluator& with,
                             std::string_view text,
                             const given_arguments& got,
                             side from) {
  with.use.look_at(text.size());
  if (got[0] == nullptr || got[0]->is<none>())
    return stripped(text, from);
  const auto& which = got.text(0);
  with.use.step(which.size());  // stripped() sorts it
  return stripped(text, from, which);
}

std::string repeat_text(evaluator& with, std::string_view text, std::int64_t times) {
  const auto out = combined(with, "*", value(text), std::max<std::int64_t>(times, 0));
  return *out.text();
}

#define TROUPE_JINJA_CHANGE(change)                                                       \
  [](evaluator& with, const value& to, const arguments& given) -> value {                 \
    return changed_text(with, to, given, [](const std::string& text) { return change; }); \
  }

filter_table filters_of_texts() {
  return {{"trim", trim},
          {"replace", replace},
          {"indent", indent},
          {"int", to_int},
          {"float", to_float},
          {"abs", absolute},
          {"round", round_number},
          {"tojson", to_json},
          {"default", otherwise},
          {"d", otherwise},
          {"format", format_text},
          {"wordcount", word_count},
          {"upper", TROUPE_JINJA_CHANGE(upper(text))},
          {"lower", TROUPE_JINJA_CHANGE(lower(text))},
          {"title", TROUPE_JINJA_CHANGE(titled_words(text))},
          {"capitalize", TROUPE_JINJA_CHANGE(capitalized(text))},
          {"string", TROUPE_JINJA_CHANGE(text)},
          {"safe", safe}};
}

#undef TROUPE_JINJA_CHANGE

namespace {

const filter_table& every_filter() {
  static const auto built = [] {
    auto out = filters_of_texts();
    out.merge(filters_of_lists());
    return out;
  }();
  return built;
}

}  // namespace

bool is_filter(std::string_view name) {
  return every_filter().contains(name);
}

value apply_filter(evaluator& with,
                   const std::string& name,
                   const value& to,
                   const arguments& given) {
  const meter::level deeper(with.use);
  with.use.step();
  const auto found = every_filter().find(name);
  if (found == every_filter().end())
    with.use.fail(fmt::format("the filter '{}' is not supported", name));
  return found->second(with, to, given);
}

}  // namespace troupe::runtime::jinja
