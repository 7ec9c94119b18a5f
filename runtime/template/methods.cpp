// The methods of texts, dictionaries and lists.

#include "runtime/template/filters.hpp"

#include <algorithm>
#include <map>

namespace troupe::runtime::jinja {
namespace {

using method = value (*)(evaluator&, const value&, const arguments&);
using methods = std::map<std::string, method, std::less<>>;

value strip_by(evaluator& with, const value& of, const arguments& given, side from) {
  const given_arguments got(with, "strip()", given, {"chars"});
  const auto& text = *of.text();
  with.use.make_text(text.size());
  return stripped_by(with, text, got, from);
}

value split_at_spaces(evaluator& with, std::string_view text, std::int64_t most, bool from_right) {
  values out;
  auto rest = stripped(text, from_right ? side::right : side::left);
  while (!rest.empty()) {
    with.use.make_part(0);
    std::size_t begin = 0, end = rest.size();
    if (most >= 0 && std::int64_t(out.size()) >= most) {
      out.emplace_back(rest);
      break;
    }
    if (from_right) {
      const auto head = [&] {
        for (std::size_t at = rest.size(); at > 0; --at) {
          if ((static_cast<unsigned char>(rest[at - 1]) & 0xc0) == 0x80)
            continue;
          auto next = at - 1;
          if (is_space(next_character(rest, next)))
            return next;
        }
        return std::size_t{0};
      }();
      begin = head;
      out.emplace_back(rest.substr(begin));
      rest = stripped(rest.substr(0, begin), side::right);
      continue;
    }
    for (std::size_t at = 0; at < rest.size();) {
      const auto before = at;
      if (is_space(next_character(rest, at))) {
        end = before;
        break;
      }
    }
    out.emplace_back(rest.substr(0, end));
    rest = stripped(rest.substr(end), side::left);
  }
  if (from_right)
    std::reverse(out.begin(), out.end());
  return make_sequence(with.use, std::move(out));
}

value split_at(evaluator& with,
               std::string_view text,
               std::string_view mark,
               std::int64_t most,
               bool from_right) {
  if (mark.empty())
    with.use.fail("split() by an empty text");
  // Splits the reversed text to split from the right.
  const auto turned = [from_right](std::string_view x) {
    return from_right ? std::string(x.rbegin(), x.rend()) : std::string(x);
  };
  const auto whole = turned(text), between = turned(mark);
  auto rest = std::string_view(whole);
  values out;
  while (most < 0 || std::int64_t(out.size()) < most) {
    const auto at = first_of(rest, between);
    if (at == std::string_view::npos)
      break;
    with.use.make_part(at);
    out.emplace_back(turned(rest.substr(0, at)));
    rest.remove_prefix(at + between.size());
  }
  out.emplace_back(turned(rest));
  if (from_right)
    std::reverse(out.begin(), out.end());
  return make_sequence(with.use, std::move(out));
}

value split_by(evaluator& with, const value& of, const arguments& given, bool from_right) {
  const given_arguments got(with, "split()", given, {"sep", "maxsplit"});
  const auto& text = *of.text();
  with.use.make_text(text.size());
  with.use.step(text.size() / 8);
  const auto most = got.whole(1, -1);
  if (got[0] == nullptr || got[0]->is<none>())
    return split_at_spaces(with, text, most, from_right);
  return split_at(with, text, got.text(0), most, from_right);
}

/// The byte range of a search's characters [start, end).
std::pair<std::size_t, std::size_t> stretch(std::string_view text,
                                            const given_arguments& got,
                                            std::size_t first) {
  const auto size = std::int64_t(length(text));
  const auto clipped
      = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size); };
  const auto given
      = [&](std::size_t which) { return got[which] != nullptr && !got[which]->is<none>(); };
  const auto from = given(first) ? got.whole(first, 0) : 0;
  if (from > size)
    return {1, 0};
  const auto begin = clipped(from);
  const auto end = given(first + 1) ? clipped(got.whole(first + 1, size)) : size;
  return {byte_of(text, std::size_t(begin)), byte_of(text, std::size_t(end))};
}

value find_in(evaluator& with, const value& of, const arguments& given, bool last) {
  const given_arguments got(with, "find()", given, {"sub", "start", "end"});
  const std::string_view text = *of.text();
  with.use.step(text.size() / 8);
  const auto& part = got.text(0);
  const auto [begin, end] = stretch(text, got, 1);
  if (begin > end)
    return std::int64_t{-1};
  const auto inside = text.substr(begin, end - begin);
  if (last)
    with.use.make_text(text.size() + part.size());  // last_of reverses both
  const auto at = last ? last_of(inside, part) : first_of(inside, part);
  if (at == std::string_view::npos)
    return std::int64_t{-1};
  return std::int64_t(length(text.substr(0, begin + at)));
}

bool has_affix(evaluator& with, std::string_view text, const value& affix, bool at_end) {
  if (affix.has_form(form::tuple)) {
    for (const auto& one : affix.elements()->items)
      if (has_affix(with, text, one, at_end))
        return true;
    return false;
  }
  require_defined(with, affix);
  with.use.step(1 + (affix.text() == nullptr ? 0 : affix.text()->size() / 64));
  if (affix.text() == nullptr)
    with.use.fail(
        fmt::format("startswith() and endswith() need a str or a tuple of str, not a "
                    "'{}'",
                    type_name(affix)));
  return at_end ? text.ends_with(*affix.text()) : text.starts_with(*affix.text());
}

value affix_of(evaluator& with, const value& of, const arguments& given, bool at_end) {
  const given_arguments got(
      with, at_end ? "endswith()" : "startswith()", given, {"text", "start", "end"});
  const std::string_view text = *of.text();
  with.use.step(text.size() / 64);
  const auto [begin, end] = stretch(text, got, 1);
  if (begin > end)
    return false;
  return has_affix(with, text.substr(begin, end - begin), got.required(0), at_end);
}

value joined_by(evaluator& with, const value& of, const arguments& given) {
  const given_arguments got(with, "join()", given, {"iterable"});
  std::string out;
  bool first = true;
  for (const auto& item : elements_of(with.use, got.required(0))) {
    if (item.text() == nullptr)
      with.use.fail(fmt::format("join() of a '{}': only str can be joined", type_name(item)));
    with.use.make_text(item.text()->size() + of.text()->size());
    if (!std::exchange(first, false))
      out += *of.text();
    out += *item.text();
  }
  return out;
}

value replaced_in(evaluator& with, const value& of, const arguments& given) {
  const given_arguments got(with, "replace()", given, {"old", "new", "count"});
  arguments inner{{value(got.text(0)), value(got.text(1))}, {}};
  inner.positional.emplace_back(got.whole(2, -1));
  return apply_filter(with, "replace", of, inner);
}

value parted(evaluator& with, const value& of, const arguments& given, bool from_right) {
  const given_arguments got(with, "partition()", given, {"sep"});
  const std::string_view text = *of.text();
  const auto& mark = got.text(0);
  if (mark.empty())
    with.use.fail("partition() by an empty text");
  with.use.make_text(text.size());
  with.use.step(text.size() / 8);
  const auto at = from_right ? last_of(text, mark) : first_of(text, mark);
  values out(3, std::string());
  if (at == std::string_view::npos)
    out[from_right ? 2 : 0] = text;
  else
    out = {text.substr(0, at), value(mark), text.substr(at + mark.size())};
  return make_sequence(with.use, std::move(out), form::tuple);
}

value without_affix(evaluator& with, const value& of, const arguments& given, bool at_end) {
  const given_arguments got(with, at_end ? "removesuffix()" : "removeprefix()", given, {"affix"});
  std::string_view text = *of.text();
  const auto& affix = got.text(0);
  with.use.make_text(text.size());
  if (at_end && text.ends_with(affix))
    text.remove_suffix(affix.size());
  if (!at_end && text.starts_with(affix))
    text.remove_prefix(affix.size());
  return text;
}

value counted_in(evaluator& with, const value& of, const arguments& given) {
  const given_arguments got(with, "count()", given, {"of"});
  std::int64_t count = 0;
  if (const auto* text = of.text()) {
    const auto& part = got.text(0);
    with.use.step(text->size() / 8);
    if (part.empty())
      return std::int64_t(length(*text)) + 1;
    for (auto at = first_of(*text, part); at != std::string::npos;
         at = first_of(*text, part, at + part.size()))
      ++count;
    return count;
  }
  for (const auto& item : of.elements()->items)
    count += equal(with.use, item, got.required(0));
  return count;
}

value index_in(evaluator& with, const value& of, const arguments& given) {
  if (of.text() != nullptr) {
    auto out = find_in(with, of, given, false);
    if (*out.whole() < 0)
      with.use.fail("index() finds no such text");
    return out;
  }
  const given_arguments got(with, "index()", given, {"of"});
  const auto& items = of.elements()->items;
  for (std::size_t i = 0; i < items.size(); ++i)
    if (equal(with.use, items[i], got.required(0)))
      return std::int64_t(i);
  with.use.fail("index() finds no such element");
}

value lines_in(evaluator& with, const value& of, const arguments& given) {
  const given_arguments got(with, "splitlines()", given, {"keepends"});
  with.use.look_at(of.text()->size());
  values out;
  for_each_line(*of.text(), got.truth(0, false), [&](std::string_view line) {
    with.use.make_part(line.size());
    out.emplace_back(line);
  });
  return make_sequence(with.use, std::move(out));
}

value padded(evaluator& with, const value& of, const arguments& given, bool left, bool zeros) {
  const given_arguments got(with, "ljust(), rjust() and zfill()", given, {"width", "fillchar"});
  got.required(0);
  const auto& text = *of.text();
  with.use.make_text(text.size());
  const std::string fill = got[1] != nullptr ? got.text(1) : zeros ? "0" : " ";
  if (length(fill) != 1)
    with.use.fail("a text is padded with exactly one character");
  const auto missing = got.whole(0, 0) - std::int64_t(length(text));
  const auto more = repeat_text(with, fill, missing);
  const bool sign = zeros && !text.empty() && (text[0] == '-' || text[0] == '+');
  if (sign)
    return text.substr(0, 1) + more + text.substr(1);
  return left ? more + text : text + more;
}

value elements_of_dict(evaluator& with, const value& of, const arguments& given, form which) {
  const given_arguments got(with, "items(), keys() and values()", given, {});
  values out;
  with.use.make_elements(of.dict()->items.size());
  for (const auto& [key, is] : of.dict()->items)
    out.push_back(which == form::keys     ? key
                  : which == form::values ? is
                                          : make_sequence(with.use, {key, is}, form::tuple));
  return make_sequence(with.use, std::move(out), which);
}

value got_from(evaluator& with, const value& of, const arguments& given) {
  const given_arguments got(with, "get()", given, {"key", "default"});
  const auto* found = of.dict()->find(key_text(with.use, got.required(0)));
  if (found != nullptr)
    return *found;
  return got[1] != nullptr ? *got[1] : value();
}

value changes(evaluator& with, const value& of, const arguments&) {
  with.use.fail(fmt::format("a '{}' cannot be changed: build another one, or use a namespace",
                            type_name(of)));
}

value same(evaluator&, const value& of, const arguments&) {
  return of;
}

#define TROUPE_JINJA_METHOD(result)                                       \
  [](evaluator& with, const value& of, const arguments& given) -> value { \
    (void)with, (void)given;                                              \
    return result;                                                        \
  }
/// A method of str without arguments.
#define TROUPE_JINJA_TEXT(result)                                         \
  [](evaluator& with, const value& of, const arguments& given) -> value { \
    const given_arguments got(with, "a method of str", given, {});        \
    const auto& text = *of.text();                                        \
    with.use.make_text(text.size());                                      \
    with.use.look_at(text.size());                                        \
    return result;                                                        \
  }

const methods& methods_of_text() {
  static const methods built = {
      {"strip", TROUPE_JINJA_METHOD(strip_by(with, of, given, side::both))},
      {"lstrip", TROUPE_JINJA_METHOD(strip_by(with, of, given, side::left))},
      {"rstrip", TROUPE_JINJA_METHOD(strip_by(with, of, given, side::right))},
      {"split", TROUPE_JINJA_METHOD(split_by(with, of, given, false))},
      {"rsplit", TROUPE_JINJA_METHOD(split_by(with, of, given, true))},
      {"splitlines", lines_in},
      {"partition", TROUPE_JINJA_METHOD(parted(with, of, given, false))},
      {"rpartition", TROUPE_JINJA_METHOD(parted(with, of, given, true))},
      {"startswith", TROUPE_JINJA_METHOD(affix_of(with, of, given, false))},
      {"endswith", TROUPE_JINJA_METHOD(affix_of(with, of, given, true))},
      {"removeprefix", TROUPE_JINJA_METHOD(without_affix(with, of, given, false))},
      {"removesuffix", TROUPE_JINJA_METHOD(without_affix(with, of, given, true))},
      {"find", TROUPE_JINJA_METHOD(find_in(with, of, given, false))},
      {"rfind", TROUPE_JINJA_METHOD(find_in(with, of, given, true))},
      {"index", index_in},
      {"count", counted_in},
      {"replace", replaced_in},
      {"join", joined_by},
      {"ljust", TROUPE_JINJA_METHOD(padded(with, of, given, false, false))},
      {"rjust", TROUPE_JINJA_METHOD(padded(with, of, given, true, false))},
      {"zfill", TROUPE_JINJA_METHOD(padded(with, of, given, true, true))},
      {"upper", TROUPE_JINJA_TEXT(upper(text))},
      {"lower", TROUPE_JINJA_TEXT(lower(text))},
      {"title", TROUPE_JINJA_TEXT(titled(text))},
      {"capitalize", TROUPE_JINJA_TEXT(capitalized(text))},
      {"isupper", TROUPE_JINJA_TEXT(is_upper(text))},
      {"islower", TROUPE_JINJA_TEXT(is_lower(text))},
      {"isdigit", TROUPE_JINJA_TEXT(is_digits(text))},
      {"isalpha", TROUPE_JINJA_TEXT(is_letters(text))},
      {"isalnum", TROUPE_JINJA_TEXT(is_letters_or_digits(text))},
      {"isspace", TROUPE_JINJA_TEXT(!text.empty() && stripped(text).empty())},
  };
  return built;
}

const methods& methods_of_dict() {
  static const methods built = {
      {"items", TROUPE_JINJA_METHOD(elements_of_dict(with, of, given, form::items))},
      {"keys", TROUPE_JINJA_METHOD(elements_of_dict(with, of, given, form::keys))},
      {"values", TROUPE_JINJA_METHOD(elements_of_dict(with, of, given, form::values))},
      {"get", got_from},
      {"copy", same},
      {"pop", changes},
      {"popitem", changes},
      {"update", changes},
      {"clear", changes},
      {"setdefault", changes},
  };
  return built;
}

const methods& methods_of_list() {
  static const methods built = {
      {"index", index_in},
      {"count", counted_in},
      {"copy", same},
      {"append", changes},
      {"extend", changes},
      {"insert", changes},
      {"pop", changes},
      {"remove", changes},
      {"reverse", changes},
      {"sort", changes},
      {"clear", changes},
  };
  return built;
}

#undef TROUPE_JINJA_METHOD
#undef TROUPE_JINJA_TEXT

const methods* methods_for(const value& of) {
  if (of.text() != nullptr)
    return &methods_of_text();
  if (of.dict() != nullptr)
    return &methods_of_dict();
  return of.has_form(form::list) ? &methods_of_list() : nullptr;
}

}  // namespace

std::optional<value> method_of(const value& of, const std::string& name) {
  const auto* all = methods_for(of);
  if (of.has_form(form::tuple) && (name == "index" || name == "count"))
    all = &methods_of_list();
  if (all == nullptr)
    return std::nullopt;
  const auto found = all->find(name);
  if (found == all->end())
    return std::nullopt;
  auto made = std::make_shared<function>();
  made->name = name;
  made->call = [of, carry_out = found->second](evaluator& with, const arguments& given) {
    if (of.is_marked())
      with.use.fail("a method of a text that |safe has marked is not supported");
    return carry_out(with, of, given);
  };
  return value(std::shared_ptr<const function>(std::move(made)));
}

}  // namespace troupe::runtime::jinja
