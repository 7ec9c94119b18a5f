#include "runtime/inference/constraint_expression.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/shortened.hpp"
#include "runtime/tokenizer/pre_tokenizer.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace troupe::runtime {
namespace {

using part = constraint_grammar::part;

constexpr std::size_t longest_expression = 10'000;  // bytes
constexpr int deepest_group = 100;
constexpr std::int32_t largest_bound = 1'000'000;

const character_set digits = {{'0', '9'}};
const character_set word_characters = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const character_set white_spaces = {{'\t', '\r'}, {' ', ' '}};

class expression_parser {
 public:
  expression_parser(constraint_grammar& to,
                    std::string_view all,
                    expression_scope scope,
                    spelling by)
      : to_(to), all_(all), scope_(scope), by_(by) {
    if (all.size() > longest_expression)
      throw input_error(
          "the regular expression has {} bytes: {} are the most", all.size(), longest_expression);
    if (valid_utf8_prefix(all) < all.size())
      throw input_error("the regular expression is not valid UTF-8");
  }

  part whole() {
    const auto out = alternatives(0);
    if (at_ < all_.size())
      refuse("this ) closes no group; write \\)");
    return out;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw input_error("cannot use the regular expression '{}', byte {}: {}",
                      shortened(std::string(all_), 80),
                      at_,
                      why);
  }
  bool sees(std::string_view what) const { return all_.substr(at_).starts_with(what); }
  bool takes(std::string_view what) {
    const bool there = sees(what);
    if (there)
      at_ += what.size();
    return there;
  }
  char32_t character() {
    const auto first = std::uint8_t(all_[at_]);
    const std::size_t size = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    char32_t out = size == 1 ? first : first & (0x7F >> size);
    for (std::size_t i = 1; i < size; ++i)
      out = out << 6 | (std::uint8_t(all_[at_ + i]) & 0x3F);
    at_ += size;
    return out;
  }

  part alternatives(int depth) {
    std::vector<part> all;
    const bool searched = depth == 0 && scope_ == expression_scope::found;
    do {
      const bool begins = depth == 0 && takes("^");
      auto one = in_order(depth);
      const bool ends = depth == 0 && takes("$");
      if (at_ < all_.size() && !sees("|") && !sees(")"))
        refuse("$ stands only at the end of the expression or of an alternative; write \\$");
      if (searched && !begins)
        one = to_.sequence(anything(), one);
      if (searched && !ends)
        one = to_.sequence(one, anything());
      all.push_back(one);
    } while (takes("|"));
    return to_.either(std::move(all));
  }

  part anything() {
    return to_.repeat(character_of(to_, all_characters(), by_), 0, constraint_grammar::unlimited);
  }

  part in_order(int depth) {
    std::vector<part> all;
    while (at_ < all_.size() && !sees("|") && !sees(")") && !(sees("$") && depth == 0))
      all.push_back(repeated(one(depth)));
    auto out = to_.empty();
    for (auto x = all.rbegin(); x != all.rend(); ++x)
      out = to_.sequence(*x, out);
    return out;
  }

  part repeated(part what) {
    auto least = 0, most = constraint_grammar::unlimited;
    if (takes("+"))
      least = 1;
    else if (takes("?"))
      most = 1;
    else if (takes("{"))
      bounds(least, most);
    else if (!takes("*"))
      return what;
    takes("?");
    if (sees("*") || sees("+") || sees("?") || sees("{"))
      refuse("a repetition follows a repetition; put the first one into a group");
    return to_.repeat(what, least, most);
  }

  void bounds(std::int32_t& least, std::int32_t& most) {
    least = bound();
    most = least;
    if (takes(","))
      most = sees("}") ? constraint_grammar::unlimited : bound();
    if (!takes("}"))
      refuse("write {2}, {2,} or {2,5}, and \\{ for the character");
    if (most < least)
      refuse("the second bound is below the first");
  }
  std::int32_t bound() {
    std::int32_t out = 0;
    const auto* from = all_.data() + at_;
    const auto [end, failure] = std::from_chars(from, all_.data() + all_.size(), out);
    if (end == from || *from == '-')
      refuse("write {2}, {2,} or {2,5}, and \\{ for the character");
    if (failure != std::errc() || out > largest_bound)
      refuse(fmt::format("a bound is above {}", largest_bound));
    at_ += std::size_t(end - from);
    return out;
  }

  part one(int depth) {
    if (takes("("))
      return group(depth + 1);
    if (takes("["))
      return character_of(to_, class_of_characters(), by_);
    if (takes("."))
      return character_of(to_, without(all_characters(), {{'\n', '\n'}}), by_);
    if (takes("\\"))
      return character_of(to_, escape(), by_);
    if (sees("*") || sees("+") || sees("?") || sees("{"))
      refuse("there is nothing to repeat; write \\ before the character");
    if (sees("^") || sees("$"))
      refuse("^ and $ stand only at the ends of the expression or of its alternatives");
    const auto x = character();
    return character_of(to_, {{x, x}}, by_);
  }

  part group(int depth) {
    if (depth > deepest_group)
      refuse(fmt::format("groups are nested more than {} deep", deepest_group));
    if (takes("?") && !takes(":")) {
      takes("P");
      if (!takes("<") || sees("=") || sees("!"))
        refuse(
            "a group begins with ( or (?: or (?<name>; assertions and options are not supported");
      const auto end = all_.find('>', at_);
      if (end == all_.npos)
        refuse("the name of a group has no >");
      at_ = end + 1;
    }
    const auto out = alternatives(depth);
    if (!takes(")"))
      refuse("a group has no )");
    return out;
  }

  character_set class_of_characters() {
    const bool negated = takes("^");
    character_set out;
    for (bool first = true; first || !sees("]"); first = false) {
      if (at_ == all_.size())
        refuse("a [ has no ]");
      if (sees("[:") || sees("[=") || sees("[."))
        refuse("named classes are not supported; list the characters");
      auto from = in_class();
      if (sees("-") && !sees("-]") && from.size() == 1 && from[0].first == from[0].second) {
        takes("-");
        if (at_ == all_.size())
          refuse("a [ has no ]");
        const auto to = in_class();
        if (to.size() != 1 || to[0].first != to[0].second || to[0].first < from[0].first)
          refuse("a range of characters has no order");
        from[0].second = to[0].first;
      }
      out.insert(out.end(), from.begin(), from.end());
    }
    takes("]");
    out = normal(std::move(out));
    return negated ? without(all_characters(), out) : out;
  }
  character_set in_class() {
    if (takes("\\"))
      return escape();
    const auto x = character();
    return {{x, x}};
  }

  character_set escape() {
    if (at_ == all_.size())
      refuse("a \\ ends the expression");
    const auto x = character();
    const auto alone = [](char32_t is) { return character_set{{is, is}}; };
    constexpr std::string_view letters = "nrtfv0", meant("\n\r\t\f\v\0", 6);
    const auto letter = x < 0x80 ? letters.find(char(x)) : letters.npos;
    if (letter != letters.npos && !(x == '0' && at_ < all_.size() && is_digit(all_[at_])))
      return alone(char32_t(meant[letter]));
    if (x == 'd' || x == 'D')
      return x == 'd' ? digits : without(all_characters(), digits);
    if (x == 'w' || x == 'W')
      return x == 'w' ? word_characters : without(all_characters(), word_characters);
    if (x == 's' || x == 'S')
      return x == 's' ? white_spaces : without(all_characters(), white_spaces);
    if (x == 'x')
      return alone(hexadecimal(2, 2));
    if (x == 'u' && takes("{")) {
      const auto out = hexadecimal(1, 6);
      if (!takes("}"))
        refuse("\\u{ has no }");
      return alone(out);
    }
    if (x == 'u')
      return alone(hexadecimal(4, 4));
    if (x < 0x80 && (x < '0' || (x > '9' && x < 'A') || (x > 'Z' && x < 'a') || x > 'z'))
      return alone(x);
    refuse(fmt::format("\\{} is not supported", utf8_of(x)));
  }
  static bool is_digit(char x) { return x >= '0' && x <= '9'; }
  char32_t hexadecimal(std::size_t least, std::size_t most) {
    std::uint32_t out = 0;
    const auto* from = all_.data() + at_;
    const auto* last = from + std::min(most, all_.size() - at_);
    const auto size = std::size_t(std::from_chars(from, last, out, 16).ptr - from);
    if (size < least || out > 0x10FFFF || (out >= 0xD800 && out <= 0xDFFF))
      refuse(fmt::format("an escape needs {} hexadecimal digits of a character", least));
    at_ += size;
    return char32_t(out);
  }

  constraint_grammar& to_;
  std::string_view all_;
  expression_scope scope_;
  spelling by_;
  std::size_t at_ = 0;
};

}  // namespace

part expression_part(constraint_grammar& to,
                     std::string_view expression,
                     expression_scope scope,
                     spelling by) {
  return expression_parser(to, expression, scope, by).whole();
}

}  // namespace troupe::runtime
