#include "runtime/inference/constraint_json.hpp"

#include "runtime/inference/constraint_characters.hpp"

#include <algorithm>
#include <iterator>
#include <vector>

namespace troupe::runtime {
namespace {

constexpr std::int64_t largest_integer = 999'999'999'999'999'999;  // 18 digits
constexpr auto unlimited = constraint_grammar::unlimited;
constexpr std::int32_t deepest_indent = 64;

}  // namespace

json_parts::json_parts(constraint_grammar& to) : to_(to) {
  const auto blank = one_of(" ");
  space_ = to.either(
      {to.empty(), blank, to.sequence(one_of("\n"), to.repeat(one_of(" \t"), 0, deepest_indent))});
  comma_ = to.sequence(one_of(","), space_);
  colon_ = to.sequence(one_of(":"), to.optional(blank));
  unescaped_ = character_of(
      to, without(all_characters(), {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}), spelling::plain);
}

constraint_grammar::part json_parts::one_of(std::string_view bytes) {
  byte_set out;
  for (const char byte : bytes)
    out.set(std::uint8_t(byte));
  return to_.bytes(out);
}

constraint_grammar::part json_parts::digits(std::int32_t least, std::int32_t most) {
  return to_.repeat(one_of("0123456789"), least, most);
}

/// Digits of the integers from `least` to `most`, both 0 or more.
constraint_grammar::part json_parts::whole(std::int64_t least, std::int64_t most) {
  std::vector<part> all;
  std::int64_t first = 0;
  for (std::int64_t last = 9; first <= most && least <= most; last = last * 10 + 9) {
    if (least <= last)
      all.push_back(to_.between(
          std::to_string(std::max(first, least)), std::to_string(std::min(last, most)), '0', '9'));
    first = last + 1;
    if (last >= most)
      break;
  }
  return to_.either(std::move(all));
}

constraint_grammar::part json_parts::integer(std::optional<std::int64_t> least,
                                             std::optional<std::int64_t> most) {
  const auto first = std::max(least.value_or(-largest_integer), -largest_integer);
  const auto last = std::min(most.value_or(largest_integer), largest_integer);
  std::vector<part> all;
  if (last >= 0)
    all.push_back(whole(std::max<std::int64_t>(first, 0), last));
  if (first < 0)
    all.push_back(to_.sequence(one_of("-"), whole(std::max<std::int64_t>(-last, 1), -first)));
  return to_.either(std::move(all));
}

constraint_grammar::part json_parts::number(std::optional<std::int64_t> least,
                                            std::optional<std::int64_t> most) {
  const auto last = std::min(most.value_or(largest_integer), largest_integer);
  const auto first = least.value_or(0);
  const auto fraction = to_.optional(to_.sequence(one_of("."), digits(1, 17)));
  const auto exponent
      = to_.optional(to_.sequence({one_of("eE"), to_.optional(one_of("+-")), digits(1, 2)}));
  const auto any = to_.sequence({whole(0, largest_integer), fraction, exponent});
  std::vector<part> all;
  if (!least && !most) {
    all = {any, to_.sequence(one_of("-"), any)};
  } else {
    if (!least)
      all.push_back(to_.sequence(one_of("-"), any));
    if (!most && first == 0)
      all.push_back(any);
    if (first < last)
      all.push_back(to_.sequence(whole(first, last - 1), fraction));
    if (first <= last)
      all.push_back(
          to_.sequence(whole(last, last),
                       to_.optional(to_.sequence(one_of("."), to_.repeat(one_of("0"), 1, 17)))));
  }
  return to_.either(std::move(all));
}

constraint_grammar::part json_parts::quoted(part characters) {
  return to_.sequence({one_of("\""), characters, one_of("\"")});
}

constraint_grammar::part json_parts::string() {
  return quoted(to_.repeat(json_character(to_), 0, unlimited));
}

constraint_grammar::part json_parts::any() {
  if (any_)
    return *any_;
  any_ = to_.rule();
  to_.define(*any_,
             to_.either({object(),
                         array_of(*any_, 0, unlimited),
                         string(),
                         number({}, {}),
                         to_.literal("true"),
                         to_.literal("false"),
                         to_.literal("null")}));
  return *any_;
}

constraint_grammar::part json_parts::object() {
  return object_of({}, member(string(), any()));
}

constraint_grammar::part json_parts::member(part key, part value) {
  return to_.sequence({key, colon_, value});
}

constraint_grammar::part json_parts::open(char bracket) {
  return to_.sequence(one_of({&bracket, 1}), space_);
}

constraint_grammar::part json_parts::close(char bracket) {
  return to_.sequence(space_, one_of({&bracket, 1}));
}

constraint_grammar::part json_parts::object_of(std::span<const property> properties,
                                               std::optional<part> more) {
  // The members after a first one, and those that begin with the first one.
  auto rest = more ? to_.repeat(to_.sequence(comma_, *more), 0, unlimited) : to_.empty();
  auto all = more ? to_.sequence(*more, rest) : to_.nothing();
  bool may_have_none = true;
  for (auto one = properties.rbegin(); one != properties.rend(); ++one) {
    const auto with = to_.sequence(one->member, rest);
    all = one->required ? with : to_.either({with, all});
    const auto next = to_.sequence(comma_, with);
    rest = one->required ? next : to_.either({next, rest});
    may_have_none = may_have_none && !one->required;
  }
  return to_.either({to_.sequence({open('{'), all, close('}')}),
                     may_have_none ? to_.literal("{}") : to_.nothing()});
}

constraint_grammar::part json_parts::array_of(part item, std::int32_t least, std::int32_t most) {
  if (most < least)
    return to_.nothing();
  const auto none = least == 0 ? to_.literal("[]") : to_.nothing();
  if (most == 0)
    return none;
  const auto rest = to_.repeat(
      to_.sequence(comma_, item), std::max(least, 1) - 1, most == unlimited ? unlimited : most - 1);
  return to_.either({none, to_.sequence({open('['), item, rest, close(']')})});
}

constraint_grammar::part json_parts::key_except(std::span<const std::string> names) {
  std::vector<std::u32string> sorted;
  for (const auto& name : names) {
    auto& characters = sorted.emplace_back();
    for (std::size_t at = 0; at < name.size();) {
      const auto first = std::uint8_t(name[at]);
      const std::size_t size = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
      char32_t x = size == 1 ? first : first & (0x7F >> size);
      for (std::size_t i = 1; i < size && at + i < name.size(); ++i)
        x = x << 6 | (std::uint8_t(name[at + i]) & 0x3F);
      characters += x;
      at += size;
    }
  }
  std::sort(sorted.begin(), sorted.end());
  return quoted(key_after(sorted, 0));
}

/// The rests of keys whose first `at` characters are those of all these names, which are sorted.
constraint_grammar::part json_parts::key_after(std::span<const std::u32string> names,
                                               std::size_t at) {
  const auto any = to_.repeat(unescaped_, 0, unlimited);
  const auto own = without(all_characters(), {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}});
  const bool ends_here = !names.empty() && names.front().size() == at;
  std::vector<part> all = {ends_here ? to_.nothing() : to_.empty()};
  character_set others = own;
  for (auto from = names.begin() + (ends_here ? 1 : 0); from != names.end();) {
    const auto x = (*from)[at];
    const auto to = std::find_if(from, names.end(), [&](const auto& y) { return y[at] != x; });
    others = without(others, {{x, x}});
    if (without(own, {{x, x}}) != own)
      all.push_back(to_.sequence(character_of(to_, {{x, x}}, spelling::plain),
                                 key_after({from, to}, at + 1)));
    from = to;
  }
  all.push_back(to_.sequence(character_of(to_, others, spelling::plain), any));
  return to_.either(std::move(all));
}

}  // namespace troupe::runtime
