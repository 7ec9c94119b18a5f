#include "runtime/template/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <utf8proc.h>
#include <utility>

namespace troupe::runtime::jinja {
namespace {

bool continues(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

utf8proc_category_t category_of(char32_t character) {
  return utf8proc_category(utf8proc_int32_t(character));
}

bool is_upper_letter(char32_t c) {
  const auto category = category_of(c);
  return category == UTF8PROC_CATEGORY_LU;
}

bool is_lower_letter(char32_t c) {
  return category_of(c) == UTF8PROC_CATEGORY_LL || c == 0xaa || c == 0xba;
}

bool is_cased(char32_t c) {
  return is_upper_letter(c) || is_lower_letter(c) || category_of(c) == UTF8PROC_CATEGORY_LT;
}

bool is_letter(char32_t c) {
  const auto category = category_of(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

/// The one or two characters that a character maps to; the second is 0 if there is only one.
using mapped_character = std::array<char32_t, 2>;

constexpr char32_t sharp_s = 0xdf, capital_i_with_dot = 0x130, dot_above = 0x307;

template <class Map>
std::string mapped(std::string_view text, Map&& map) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();)
    for (std::size_t i = 0; const auto c : map(next_character(text, at)))
      if (i++ == 0 || c != 0)
        append_character(out, c);
  return out;
}

mapped_character to_upper(char32_t c) {
  return c == sharp_s ? mapped_character{U'S', U'S'}
                      : mapped_character{char32_t(utf8proc_toupper(utf8proc_int32_t(c)))};
}
mapped_character to_title(char32_t c) {
  return c == sharp_s ? mapped_character{U'S', U's'}
                      : mapped_character{char32_t(utf8proc_totitle(utf8proc_int32_t(c)))};
}
mapped_character to_lower(char32_t c) {
  return c == capital_i_with_dot
             ? mapped_character{U'i', dot_above}
             : mapped_character{char32_t(utf8proc_tolower(utf8proc_int32_t(c)))};
}

bool ends_line(char32_t c) {
  return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028
         || c == 0x2029;
}

bool can_be_printed(char32_t c) {
  if (c == ' ')
    return true;
  switch (category_of(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

/// Appends \xHH, \uHHHH or \UHHHHHHHH; `how` is x, u or U.
void append_escape(std::string& to, char how, char32_t character) {
  constexpr std::string_view digits = "0123456789abcdef";
  (to += '\\') += how;
  for (int shift = how == 'x' ? 4 : how == 'u' ? 12 : 28; shift >= 0; shift -= 4)
    to += digits[(character >> shift) & 0xf];
}

/// Passes a text on in pieces, so that the sink can count it before it is complete.
struct pieces {
  explicit pieces(const text_sink& sink) : to(sink) {}
  void pass_on() {
    constexpr std::size_t large = 4096;
    if (text.size() >= large)
      finish();
  }
  void finish() {
    to(text);
    text.clear();
  }
  const text_sink& to;
  std::string text = {};
};

template <class Is>
bool every(std::string_view text, Is&& is) {
  for (std::size_t at = 0; at < text.size();)
    if (!is(next_character(text, at)))
      return false;
  return !text.empty();
}

template <class Drop>
std::string_view stripped_of(std::string_view text, side from, Drop&& drop) {
  std::size_t first = 0, end = text.size();
  if (from != side::right)
    while (first < end) {
      auto next = first;
      if (!drop(next_character(text, next)))
        break;
      first = next;
    }
  if (from != side::left)
    while (end > first) {
      auto begin = end - 1;
      while (begin > first && continues(text[begin]))
        --begin;
      auto at = begin;
      if (!drop(next_character(text, at)))
        break;
      end = begin;
    }
  return text.substr(first, end - first);
}

}  // namespace

std::size_t length(std::string_view text) {
  return std::size_t(std::count_if(text.begin(), text.end(), [](char c) { return !continues(c); }));
}

std::size_t byte_of(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  while (at < text.size() && index > 0) {
    ++at;
    while (at < text.size() && continues(text[at]))
      ++at;
    --index;
  }
  return at;
}

char32_t next_character(std::string_view text, std::size_t& at) {
  utf8proc_int32_t out = -1;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at);
  const auto size = utf8proc_iterate(bytes, utf8proc_ssize_t(text.size() - at), &out);
  if (size <= 0)
    return static_cast<unsigned char>(text[at++]);
  at += std::size_t(size);
  return char32_t(out);
}

void append_character(std::string& to, char32_t character) {
  std::array<utf8proc_uint8_t, 4> bytes;
  const auto size = utf8proc_encode_char(utf8proc_int32_t(character), bytes.data());
  to.append(reinterpret_cast<const char*>(bytes.data()), std::size_t(size));
}

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    utf8proc_int32_t out = -1;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at);
    const auto size = utf8proc_iterate(bytes, utf8proc_ssize_t(text.size() - at), &out);
    if (size <= 0)
      return false;
    at += std::size_t(size);
  }
  return true;
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0
         || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f
         || c == 0x205f || c == 0x3000;
}

std::string_view stripped(std::string_view text, side from) {
  return stripped_of(text, from, is_space);
}

std::string_view stripped(std::string_view text, side from, std::string_view which) {
  std::u32string all;
  for (std::size_t at = 0; at < which.size();)
    all.push_back(next_character(which, at));
  std::sort(all.begin(), all.end());
  return stripped_of(
      text, from, [&](char32_t c) { return std::binary_search(all.begin(), all.end(), c); });
}

std::size_t first_of(std::string_view text, std::string_view part, std::size_t from) {
  if (from > text.size())
    return std::string_view::npos;
  const void* const found
      = ::memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return found == nullptr ? std::string_view::npos
                          : std::size_t(static_cast<const char*>(found) - text.data());
}

std::size_t last_of(std::string_view text, std::string_view part) {
  const auto found
      = first_of(std::string(text.rbegin(), text.rend()), std::string(part.rbegin(), part.rend()));
  return found == std::string_view::npos ? found : text.size() - found - part.size();
}

std::string upper(std::string_view text) {
  return mapped(text, to_upper);
}

std::string lower(std::string_view text) {
  return mapped(text, to_lower);
}

std::string capitalized(std::string_view text) {
  bool first = true;
  return mapped(
      text, [&](char32_t c) { return std::exchange(first, false) ? to_title(c) : to_lower(c); });
}

std::string titled(std::string_view text) {
  bool after_cased = false;
  return mapped(text, [&](char32_t c) {
    const auto out = after_cased ? to_lower(c) : to_title(c);
    after_cased = is_cased(c);
    return out;
  });
}

std::string titled_words(std::string_view text) {
  bool begins = true;
  return mapped(text, [&](char32_t c) {
    const auto out = begins ? to_upper(c) : to_lower(c);
    begins = is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    return out;
  });
}

bool is_upper(std::string_view text) {
  bool some = false;
  for (std::size_t at = 0; at < text.size();) {
    const auto c = next_character(text, at);
    if (is_cased(c) && !is_upper_letter(c))
      return false;
    some = some || is_upper_letter(c);
  }
  return some;
}

bool is_lower(std::string_view text) {
  bool some = false;
  for (std::size_t at = 0; at < text.size();) {
    const auto c = next_character(text, at);
    if (is_cased(c) && !is_lower_letter(c))
      return false;
    some = some || is_lower_letter(c);
  }
  return some;
}

bool is_digits(std::string_view text) {
  return every(text, [](char32_t c) { return category_of(c) == UTF8PROC_CATEGORY_ND; });
}

bool is_letters(std::string_view text) {
  return every(text, is_letter);
}

bool is_letters_or_digits(std::string_view text) {
  return every(text,
               [](char32_t c) { return is_letter(c) || category_of(c) == UTF8PROC_CATEGORY_ND; });
}

void for_each_line(std::string_view text,
                   bool keep,
                   const std::function<void(std::string_view)>& visit) {
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = at;
    const auto c = next_character(text, at);
    if (!ends_line(c))
      continue;
    if (c == '\r' && at < text.size() && text[at] == '\n')
      ++at;
    visit(text.substr(begin, (keep ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size())
    visit(text.substr(begin));
}

std::string with_plain_newlines(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] != '\r')
      out.push_back(text[i]);
    else if (i + 1 == text.size() || text[i + 1] != '\n')
      out.push_back('\n');
  return out;
}

void quote(std::string_view text, const text_sink& to) {
  const bool single
      = text.find('\'') == std::string_view::npos || text.find('"') != std::string_view::npos;
  const char mark = single ? '\'' : '"';
  pieces out(to);
  out.text += mark;
  for (std::size_t at = 0; at < text.size(); out.pass_on()) {
    const auto c = next_character(text, at);
    if (c == char32_t(mark) || c == '\\')
      (out.text += '\\') += char(c);
    else if (c == '\n')
      out.text += "\\n";
    else if (c == '\r')
      out.text += "\\r";
    else if (c == '\t')
      out.text += "\\t";
    else if (can_be_printed(c))
      append_character(out.text, c);
    else
      append_escape(out.text, c <= 0xff ? 'x' : c <= 0xffff ? 'u' : 'U', c);
  }
  out.text += mark;
  out.finish();
}

std::string real_text(double value) {
  if (std::isnan(value))
    return "nan";
  if (std::isinf(value))
    return value > 0 ? "inf" : "-inf";
  std::array<char, 64> bytes;
  const auto end = std::to_chars(
      bytes.data(), bytes.data() + bytes.size(), value, std::chars_format::scientific);
  const std::string_view all(bytes.data(), std::size_t(end.ptr - bytes.data()));
  const auto e = all.find('e');
  int exponent = 0;
  std::from_chars(all.data() + e + (all[e + 1] == '+' ? 2 : 1), all.data() + all.size(), exponent);
  if (exponent >= -4 && exponent < 16) {
    const auto plain
        = std::to_chars(bytes.data(), bytes.data() + bytes.size(), value, std::chars_format::fixed);
    std::string out(bytes.data(), plain.ptr);
    return out.find('.') == std::string::npos ? out + ".0" : out;
  }
  return std::string(all);
}

void json_quote(std::string_view text, bool ascii, const text_sink& to) {
  pieces out(to);
  out.text += '"';
  for (std::size_t at = 0; at < text.size(); out.pass_on()) {
    const auto c = next_character(text, at);
    if (c == '"' || c == '\\')
      (out.text += '\\') += char(c);
    else if (c == '\n')
      out.text += "\\n";
    else if (c == '\r')
      out.text += "\\r";
    else if (c == '\t')
      out.text += "\\t";
    else if (c == '\b')
      out.text += "\\b";
    else if (c == '\f')
      out.text += "\\f";
    else if (c < 0x20 || (ascii && c > 0x7f && c <= 0xffff)) {
      append_escape(out.text, 'u', c);
    } else if (ascii && c > 0xffff) {
      append_escape(out.text, 'u', char32_t(0xd800 + ((c - 0x10000) >> 10)));
      append_escape(out.text, 'u', char32_t(0xdc00 + ((c - 0x10000) & 0x3ff)));
    } else {
      append_character(out.text, c);
    }
  }
  out.text += '"';
  out.finish();
}

}  // namespace troupe::runtime::jinja
