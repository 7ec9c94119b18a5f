#include "runtime/template/lexer.hpp"

#include "runtime/core/error.hpp"
#include "runtime/template/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace troupe::runtime::jinja {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool begins_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_blank(std::string_view text) {
  return stripped(text).empty();
}

class lexer {
 public:
  lexer(std::string source, const std::string& name) : source_(std::move(source)), name_(name) {}

  std::vector<token> run() {
    while (at_ < source_.size())
      text();
    add(token_kind::end, "");
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw input_error("{}, line {}: {}", name_, line_, what);
  }

  bool next_is(std::string_view what) const {
    return std::string_view(source_).substr(at_).starts_with(what);
  }
  std::string_view rest() const { return std::string_view(source_).substr(at_); }

  void go_to(std::size_t at) {
    line_ += int(std::count(
        source_.begin() + std::ptrdiff_t(at_), source_.begin() + std::ptrdiff_t(at), '\n'));
    at_ = at;
  }
  void add(token_kind kind, std::string text) { out_.push_back({kind, std::move(text), line_}); }

  void skip_space() {
    const auto left = stripped(rest(), side::left);
    go_to(source_.size() - left.size());
  }

  /// Reads the text up to the next tag, and this tag.
  void text() {
    auto open = at_;
    for (;; ++open) {
      open = source_.find('{', open);
      if (open == std::string::npos || open + 1 == source_.size()) {
        add_text(rest());
        return go_to(source_.size());
      }
      if (const char next = source_[open + 1]; next == '%' || next == '{' || next == '#')
        break;
    }
    const char kind = source_[open + 1];
    const char sign = open + 2 < source_.size() ? source_[open + 2] : ' ';
    add_text(before_tag(at_, open, sign, kind == '{'));
    go_to(open + 2 + (sign == '-' || sign == '+' ? 1 : 0));
    if (kind == '#')
      return comment();
    if (kind == '%' && raw())
      return;
    add(kind == '{' ? token_kind::output : token_kind::block, "");
    inside(kind == '{');
  }

  void add_text(std::string_view text) {
    if (!text.empty())
      add(token_kind::text, std::string(text));
  }

  /// The part of [from, to) that remains before a tag with this sign.
  std::string_view before_tag(std::size_t from, std::size_t to, char sign, bool output) const {
    const auto text = std::string_view(source_).substr(from, to - from);
    if (sign == '-')
      return stripped(text, side::right);
    if (sign == '+' || output)
      return text;
    const auto line = text.rfind('\n') + 1;  // 0 without one
    const bool whole_line = line > 0 || from == 0 || source_[from - 1] == '\n';
    return whole_line && is_blank(text.substr(line)) ? text.substr(0, line) : text;
  }

  /// Skips white space after a tag. `trims`: drops a newline.
  void after_tag(char sign, bool trims) {
    if (sign == '-')
      return skip_space();
    if (trims && sign != '+' && next_is("\n"))
      go_to(at_ + 1);
  }

  void comment() {
    const auto end = source_.find("#}", at_);
    if (end == std::string::npos)
      fail("the comment {# does not end with #}");
    const char sign = end > at_ ? source_[end - 1] : ' ';
    go_to(end + 2);
    after_tag(sign, true);
  }

  /// Reads {% raw %} ... {% endraw %}; false for another tag.
  bool raw() {
    const auto begin = at_;
    const auto line = line_;
    const auto back = [&] {
      at_ = begin;
      line_ = line;
      return false;
    };
    skip_space();
    if (!next_is("raw"))
      return back();
    go_to(at_ + 3);
    skip_space();
    if (!next_is("-%}") && !next_is("%}"))
      return back();
    const bool strips = next_is("-%}");
    go_to(at_ + (strips ? 3 : 2));
    after_tag(strips ? '-' : '+', true);
    const auto from = at_;
    for (auto open = source_.find("{%", from); open != std::string::npos;
         open = source_.find("{%", open + 1)) {
      auto inner = std::string_view(source_).substr(open + 2);
      const char sign = inner.empty() ? ' ' : inner.front();
      if (sign == '-' || sign == '+')
        inner.remove_prefix(1);
      inner = stripped(inner, side::left);
      if (!inner.starts_with("endraw"))
        continue;
      inner = stripped(inner.substr(6), side::left);
      const char closing = inner.starts_with("%}") ? ' ' : inner.empty() ? '?' : inner.front();
      if (closing != ' ' && (inner.empty() || !inner.substr(1).starts_with("%}")))
        continue;
      add_text(before_tag(from, open, sign, false));
      go_to(source_.size() - inner.size() + (closing == ' ' ? 2 : 3));
      after_tag(closing, true);
      return true;
    }
    fail("{% raw %} does not end with {% endraw %}");
  }

  /// The tokens of a tag, up to its end.
  void inside(bool output) {
    const auto first = line_;
    const std::string_view end = output ? "}}" : "%}";
    std::string brackets;
    for (;;) {
      skip_space();
      if (at_ >= source_.size())
        throw input_error("{}, line {}: the tag {} does not end with {}",
                          name_,
                          first,
                          output ? "{{" : "{%",
                          end);
      if (brackets.empty() && ends(end, output))
        return;
      const char c = source_[at_];
      if (is_digit(c))
        number();
      else if (begins_name(c))
        name();
      else if (c == '\'' || c == '"')
        string(c);
      else
        mark(brackets);
    }
  }

  bool ends(std::string_view end, bool output) {
    const char sign = source_[at_];
    const bool signed_end = (sign == '-' || (sign == '+' && !output))
                            && std::string_view(source_).substr(at_ + 1).starts_with(end);
    if (!signed_end && !next_is(end))
      return false;
    add(output ? token_kind::output_end : token_kind::block_end, "");
    go_to(at_ + (signed_end ? 3 : 2));
    after_tag(signed_end ? sign : ' ', !output);
    return true;
  }

  void name() {
    auto end = at_;
    while (end < source_.size() && (begins_name(source_[end]) || is_digit(source_[end])))
      ++end;
    add(token_kind::name, source_.substr(at_, end - at_));
    at_ = end;
  }

  std::size_t digits(std::size_t from) const {
    while (
        from < source_.size()
        && (is_digit(source_[from])
            || (source_[from] == '_' && from + 1 < source_.size() && is_digit(source_[from + 1]))))
      ++from;
    return from;
  }

  void number() {
    if (source_[at_] == '0' && at_ + 1 < source_.size()
        && std::string_view("xXoObB").find(source_[at_ + 1]) != std::string_view::npos)
      fail("only decimal numbers are supported");
    auto end = digits(at_);
    bool real = false;
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';  // a.0.1 has two subscripts
    if (!after_dot && end + 1 < source_.size() && source_[end] == '.'
        && is_digit(source_[end + 1])) {
      end = digits(end + 1);
      real = true;
    }
    if (!after_dot && end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      auto power = end + 1;
      if (power < source_.size() && (source_[power] == '+' || source_[power] == '-'))
        ++power;
      if (power < source_.size() && is_digit(source_[power])) {
        end = digits(power);
        real = true;
      }
    }
    auto written = source_.substr(at_, end - at_);
    std::erase(written, '_');
    if (!real && written.size() > 1 && written.front() == '0'
        && written.find_first_not_of('0') != std::string::npos)
      fail(fmt::format("the number {} begins with 0", written));
    add(real ? token_kind::real : token_kind::integer, written);
    at_ = end;
  }

  void string(char quote) {
    auto end = at_ + 1;
    while (end < source_.size() && source_[end] != quote)
      end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size())
      fail("a string does not end");
    add(token_kind::string, unescaped(source_.substr(at_ + 1, end - at_ - 1)));
    go_to(end + 1);
  }

  std::string unescaped(std::string_view written) const {
    std::string out;
    for (std::size_t i = 0; i < written.size(); ++i) {
      if (written[i] != '\\')
        out.push_back(written[i]);
      else
        escape(out, written, ++i);
    }
    return out;
  }

  /// Reads the escape after a backslash; `i` moves from its first to its last byte.
  void escape(std::string& out, std::string_view written, std::size_t& i) const {
    constexpr std::string_view letters = "abfnrtv\\'\"", meanings = "\a\b\f\n\r\t\v\\'\"";
    const char c = written[i];
    if (const auto which = letters.find(c); which != std::string_view::npos)
      return out.push_back(meanings[which]);
    if (c == '\n')
      return;
    if (c == 'x' || c == 'u' || c == 'U') {
      const std::size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      return coded(out, written.substr(i + 1, count), count, 16, i);
    }
    if (c >= '0' && c <= '7') {
      auto end = i;
      while (end < std::min(i + 3, written.size()) && written[end] >= '0' && written[end] <= '7')
        ++end;
      const auto count = end - i;
      --i;
      return coded(out, written.substr(i + 1, count), count, 8, i);
    }
    if (c == 'N')
      fail("characters by their names (\\N) are not supported");
    out += '\\';
    out.push_back(c);
  }

  void coded(std::string& out,
             std::string_view digits,
             std::size_t count,
             int base,
             std::size_t& i) const {
    std::uint32_t code = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), code, base);
    if (digits.size() != count || read.ec != std::errc() || read.ptr != digits.data() + count
        || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
      fail(fmt::format("a string has an escape that is not a character, '{}'", digits));
    append_character(out, code);
    i += count;
  }

  void mark(std::string& brackets) {
    static constexpr std::array<std::string_view, 6> pairs = {"//", "**", "==", "!=", ">=", "<="};
    const char c = source_[at_];
    std::size_t size = std::string_view("+-/*%~[](){}><=.:|,").find(c) != std::string_view::npos;
    for (const auto pair : pairs)
      if (next_is(pair))
        size = 2;
    if (size == 0)
      fail(c >= 0 ? fmt::format("'{}' has no meaning here", c)
                  : "a non-ASCII character is outside of a string");
    if (size == 1 && (c == '(' || c == '[' || c == '{'))
      brackets.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    if (size == 1 && (c == ')' || c == ']' || c == '}')) {
      if (brackets.empty() || brackets.back() != c)
        fail(brackets.empty() ? fmt::format("'{}' has no opening bracket", c)
                              : fmt::format("'{}' where '{}' is expected", c, brackets.back()));
      brackets.pop_back();
    }
    add(token_kind::mark, source_.substr(at_, size));
    at_ += size;
  }

  const std::string source_;
  const std::string& name_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::vector<token> out_;
};

}  // namespace

std::vector<token> tokens_of(std::string_view source, const std::string& name) {
  if (!is_utf8(source))
    throw input_error("{} is not UTF-8", name);
  auto text = with_plain_newlines(source);
  if (text.ends_with('\n'))
    text.pop_back();
  return lexer(std::move(text), name).run();
}

}  // namespace troupe::runtime::jinja
