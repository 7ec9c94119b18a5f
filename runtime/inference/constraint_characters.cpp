#include "runtime/inference/constraint_characters.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>

namespace troupe::runtime {
namespace {

using part = constraint_grammar::part;

constexpr char32_t last_character = 0x10FFFF;

/// Characters that a JSON string escapes.
const character_set escaped = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};

part utf8(constraint_grammar& to, const character_set& any) {
  std::vector<part> all;
  for (auto [first, last] : any)
    for (const char32_t end : {char32_t(0x7F), char32_t(0x7FF), char32_t(0xFFFF), last_character})
      if (first <= last && first <= end) {  // of one length
        all.push_back(to.between(utf8_of(first), utf8_of(std::min(last, end)), 0x80, 0xBF));
        first = end + 1;
      }
  return to.either(std::move(all));
}

std::string json_escape(char32_t x) {
  constexpr std::string_view named = "\"\\\b\f\n\r\t", names = "\"\\bfnrt";
  const auto at = x < 0x80 ? named.find(char(x)) : named.npos;
  return at != named.npos ? fmt::format("\\{}", names[at])
                          : fmt::format("\\u{:04x}", std::uint32_t(x));
}

}  // namespace

character_set normal(character_set any) {
  std::sort(any.begin(), any.end());
  character_set joined;
  for (const auto& [first, last] : any)
    if (!joined.empty() && first <= joined.back().second + 1)
      joined.back().second = std::max(joined.back().second, last);
    else
      joined.emplace_back(first, last);
  return without(joined, {{0xD800, 0xDFFF}});
}

character_set all_characters() {
  return normal({{0, last_character}});
}

character_set without(const character_set& from, const character_set& what) {
  character_set out;
  for (auto [first, last] : from) {
    for (const auto& [begin, end] : what) {
      if (end < first || begin > last)
        continue;
      if (begin > first)
        out.emplace_back(first, begin - 1);
      first = end + 1;
    }
    if (first <= last)
      out.emplace_back(first, last);
  }
  return out;
}

std::string utf8_of(char32_t x) {
  const auto byte = [](char32_t bits) { return static_cast<char>(bits); };
  const auto more = [&](int shift) { return byte(0x80 | (x >> shift & 0x3F)); };
  if (x < 0x80)
    return {byte(x)};
  if (x < 0x800)
    return {byte(0xC0 | x >> 6), more(0)};
  if (x < 0x10000)
    return {byte(0xE0 | x >> 12), more(6), more(0)};
  return {byte(0xF0 | x >> 18), more(12), more(6), more(0)};
}

part character_of(constraint_grammar& to, const character_set& any, spelling by) {
  if (by == spelling::plain)
    return utf8(to, any);
  const auto raw = without(any, escaped);
  std::vector<part> all = {utf8(to, raw)};
  for (const auto& [first, last] : without(any, raw))
    for (auto x = first; x <= last; ++x)
      all.push_back(to.literal(json_escape(x)));
  return to.either(std::move(all));
}

part json_character(constraint_grammar& to) {
  const auto any = [&](std::string_view bytes) {
    byte_set out;
    for (const char byte : bytes)
      out.set(std::uint8_t(byte));
    return to.bytes(out);
  };
  const auto hex = any("0123456789abcdefABCDEF");
  const auto low = to.sequence({any("dD"), any("cdefCDEF"), hex, hex});
  const auto high = to.sequence({any("dD"), any("89abAB"), hex, hex});
  const auto other = to.either({to.sequence({any("0123456789abcefABCEF"), hex, hex, hex}),
                                to.sequence({any("dD"), any("01234567"), hex, hex})});
  const auto escape = to.either(
      {any("\"\\/bfnrt"),
       to.sequence(any("u"), to.either({other, to.sequence({high, any("\\"), any("u"), low})}))});
  return to.either({utf8(to, without(all_characters(), escaped)), to.sequence(any("\\"), escape)});
}

}  // namespace troupe::runtime
