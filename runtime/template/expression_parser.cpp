#include "runtime/template/expression_parser.hpp"

#include "runtime/core/error.hpp"
#include "runtime/template/builtins.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

namespace troupe::runtime::jinja {
namespace {

template <std::size_t Count>
bool is_one_of(const std::array<std::string_view, Count>& all, std::string_view name) {
  return std::find(all.begin(), all.end(), name) != all.end();
}

constexpr std::array<std::string_view, 6> comparisons = {"==", "!=", "<", "<=", ">", ">="};

/// Unsupported methods of Python.
constexpr std::array<std::string_view, 20> other_methods
    = {"casefold",   "center",           "encode",      "expandtabs", "format",
       "format_map", "fromkeys",         "isascii",     "isdecimal",  "isidentifier",
       "isnumeric",  "istitle",          "isprintable", "maketrans",  "swapcase",
       "translate",  "as_integer_ratio", "bit_length",  "is_integer", "hex"};

/// Unsupported functions of Jinja.
constexpr std::array<std::string_view, 6> other_functions
    = {"caller", "cycler", "joiner", "lipsum", "self", "super"};

}  // namespace

expression_parser::level::level(expression_parser& of) : of_(of) {
  if (++of_.depth_ > maximum_depth) {
    --of_.depth_;
    of_.fail(of_.now().line, fmt::format("more than {} levels within each other", maximum_depth));
  }
}

void expression_parser::fail(int line, const std::string& what) const {
  throw input_error("{}, line {}: {}", name_, line, what);
}

void expression_parser::unexpected(std::string_view wanted) const {
  const auto& it = now();
  const auto found = it.kind == token_kind::end ? "the template ends"
                     : it.kind == token_kind::block_end || it.kind == token_kind::output_end
                         ? "the tag ends"
                         : "";
  if (*found != '\0')
    fail(it.line, fmt::format("{} where {} is expected", found, wanted));
  fail(it.line, fmt::format("'{}' where {} is expected", it.text, wanted));
}

bool expression_parser::is_mark(std::string_view mark) const {
  return now().kind == token_kind::mark && now().text == mark;
}
bool expression_parser::is_name(std::string_view name) const {
  return now().kind == token_kind::name && now().text == name;
}
bool expression_parser::take_mark(std::string_view mark) {
  return is_mark(mark) && (take(), true);
}
bool expression_parser::take_name(std::string_view name) {
  return is_name(name) && (take(), true);
}
void expression_parser::expect_mark(std::string_view mark) {
  if (!take_mark(mark))
    unexpected(fmt::format("'{}'", mark));
}
std::string expression_parser::expect_name(std::string_view what) {
  if (now().kind != token_kind::name)
    unexpected(what);
  return take().text;
}
void expression_parser::expect(token_kind kind, std::string_view what) {
  if (now().kind != kind)
    unexpected(what);
  take();
}

expression_pointer expression_parser::make(expression_kind kind, int line, std::string text) const {
  auto out = std::make_unique<expression>();
  out->kind = kind;
  out->line = line;
  out->text = std::move(text);
  return out;
}

void expression_parser::add(expression& to, expression_pointer part) const {
  if (part != nullptr) {
    to.depth = std::max(to.depth, part->depth + 1);
    if (to.depth > maximum_depth)
      fail(to.line, fmt::format("an expression has more than {} levels", maximum_depth));
  }
  to.parts.push_back(std::move(part));
}

expression_pointer expression_parser::binary(expression_pointer left,
                                             expression_pointer right,
                                             const token& by) {
  auto out = make(expression_kind::binary, by.line, by.text);
  add(*out, std::move(left));
  add(*out, std::move(right));
  return out;
}

expression_pointer expression_parser::tuple(bool conditional) {
  const auto line = now().line;
  auto first = whole(conditional);
  if (!is_mark(","))
    return first;
  auto out = make(expression_kind::tuple, line);
  add(*out, std::move(first));
  while (take_mark(",")) {
    const auto kind = now().kind;
    if (kind == token_kind::output_end || kind == token_kind::block_end || is_mark(")"))
      break;
    add(*out, whole(conditional));
  }
  return out;
}

expression_pointer expression_parser::whole(bool conditional) {
  const level deeper(*this);
  auto out = either();
  while (conditional && is_name("if")) {
    auto choice = make(expression_kind::conditional, take().line);
    auto condition = either();
    auto otherwise = take_name("else") ? whole() : nullptr;
    add(*choice, std::move(condition));
    add(*choice, std::move(out));
    add(*choice, std::move(otherwise));
    out = std::move(choice);
  }
  return out;
}

expression_pointer expression_parser::either() {
  auto out = both();
  while (is_name("or")) {
    auto pair = make(expression_kind::either, take().line);
    add(*pair, std::move(out));
    add(*pair, both());
    out = std::move(pair);
  }
  return out;
}

expression_pointer expression_parser::both() {
  auto out = negated();
  while (is_name("and")) {
    auto pair = make(expression_kind::both, take().line);
    add(*pair, std::move(out));
    add(*pair, negated());
    out = std::move(pair);
  }
  return out;
}

expression_pointer expression_parser::negated() {
  if (!is_name("not"))
    return comparison();
  const level deeper(*this);
  auto out = make(expression_kind::unary, take().line, "not");
  add(*out, negated());
  return out;
}

expression_pointer expression_parser::comparison() {
  auto first = sum();
  expression_pointer out;
  for (;;) {
    std::string by;
    if (now().kind == token_kind::mark && is_one_of(comparisons, now().text))
      by = take().text;
    else if (take_name("in"))
      by = "in";
    else if (is_name("not") && ahead().kind == token_kind::name && ahead().text == "in") {
      take();
      take();
      by = "not in";
    } else
      return out != nullptr ? std::move(out) : std::move(first);
    if (out == nullptr) {
      out = make(expression_kind::comparison, now().line);
      add(*out, std::move(first));
    }
    out->operators.push_back(by);
    add(*out, sum());
  }
}

expression_pointer expression_parser::sum() {
  auto out = joined();
  while (is_mark("+") || is_mark("-")) {
    const auto by = take();
    out = binary(std::move(out), joined(), by);
  }
  return out;
}

expression_pointer expression_parser::joined() {
  auto first = product();
  if (!is_mark("~"))
    return first;
  auto out = make(expression_kind::join, now().line);
  add(*out, std::move(first));
  while (take_mark("~"))
    add(*out, product());
  return out;
}

expression_pointer expression_parser::product() {
  auto out = power();
  while (is_mark("*") || is_mark("/") || is_mark("//") || is_mark("%")) {
    const auto by = take();
    out = binary(std::move(out), power(), by);
  }
  return out;
}

expression_pointer expression_parser::power() {
  auto out = unary();
  while (is_mark("**")) {
    const auto by = take();
    out = binary(std::move(out), unary(), by);
  }
  return out;
}

expression_pointer expression_parser::unary(bool with_filters) {
  expression_pointer out;
  if (is_mark("-") || is_mark("+")) {
    const level deeper(*this);
    const auto sign = take();
    out = make(expression_kind::unary, sign.line, sign.text);
    add(*out, unary(false));
  } else
    out = primary();
  out = postfix(std::move(out));
  return with_filters ? behind(std::move(out)) : std::move(out);
}

expression_pointer expression_parser::primary() {
  const auto& it = now();
  auto out = make(expression_kind::constant, it.line);
  if (it.kind == token_kind::string) {
    std::string text;
    while (now().kind == token_kind::string)
      text += take().text;
    out->constant = std::move(text);
    return out;
  }
  if (it.kind == token_kind::integer) {
    std::int64_t number = 0;
    const auto* end = it.text.data() + it.text.size();
    if (std::from_chars(it.text.data(), end, number).ec != std::errc())
      fail(it.line, fmt::format("the integer {} needs more than 64 bits", it.text));
    out->constant = number;
    take();
    return out;
  }
  if (it.kind == token_kind::real) {
    out->constant = std::strtod(take().text.c_str(), nullptr);
    return out;
  }
  if (it.kind == token_kind::name) {
    const auto name = take().text;
    if (name == "true" || name == "True" || name == "false" || name == "False")
      out->constant = name == "true" || name == "True";
    else if (name != "none" && name != "None") {
      out->kind = expression_kind::name;
      out->text = name;
      varargs_ += name == "varargs";
      kwargs_ += name == "kwargs";
    }
    return out;
  }
  if (is_mark("("))
    return in_brackets();
  if (is_mark("["))
    return list();
  if (is_mark("{"))
    return dict();
  unexpected("a value");
}

expression_pointer expression_parser::in_brackets() {
  const auto line = now().line;
  expect_mark("(");
  auto out = is_mark(")") ? make(expression_kind::tuple, line) : tuple();
  expect_mark(")");
  return out;
}

expression_pointer expression_parser::list() {
  auto out = make(expression_kind::list, now().line);
  expect_mark("[");
  while (!is_mark("]")) {
    add(*out, whole());
    if (!take_mark(","))
      break;
  }
  expect_mark("]");
  return out;
}

expression_pointer expression_parser::dict() {
  auto out = make(expression_kind::dict, now().line);
  expect_mark("{");
  while (!is_mark("}")) {
    add(*out, whole());
    expect_mark(":");
    add(*out, whole());
    if (!take_mark(","))
      break;
  }
  expect_mark("}");
  return out;
}

expression_pointer expression_parser::postfix(expression_pointer of) {
  for (;;)
    if (is_mark(".") || is_mark("["))
      of = subscript(std::move(of));
    else if (is_mark("("))
      of = call(std::move(of));
    else
      return of;
}

expression_pointer expression_parser::behind(expression_pointer of) {
  for (;;)
    if (is_mark("|"))
      of = filters(std::move(of), false);
    else if (is_name("is"))
      of = test(std::move(of));
    else if (is_mark("("))
      of = call(std::move(of));
    else
      return of;
}

expression_pointer expression_parser::subscript(expression_pointer of) {
  const auto line = now().line;
  if (take_mark(".")) {
    if (now().kind == token_kind::integer) {
      auto out = make(expression_kind::item, line);
      add(*out, std::move(of));
      add(*out, primary());
      return out;
    }
    auto out = make(expression_kind::attribute, line, expect_name("an attribute's name"));
    add(*out, std::move(of));
    return out;
  }
  expect_mark("[");
  auto out = element(std::move(of));
  if (is_mark(","))
    fail(line, "several subscripts, as in x[a, b], are not supported");
  expect_mark("]");
  return out;
}

expression_pointer expression_parser::element(expression_pointer of) {
  auto out = make(expression_kind::item, now().line);
  add(*out, std::move(of));
  const auto given = [&] { return is_mark(":") || is_mark("]") ? nullptr : whole(); };
  add(*out, given());
  if (!is_mark(":")) {
    if (out->parts.back() == nullptr)
      unexpected("a subscript");
    return out;
  }
  out->kind = expression_kind::slice;
  take();
  add(*out, given());
  add(*out, take_mark(":") ? given() : nullptr);
  return out;
}

void expression_parser::call_arguments(expression& to) {
  expect_mark("(");
  while (!is_mark(")")) {
    if (is_mark("*") || is_mark("**"))
      fail(now().line, fmt::format("arguments by {} are not supported", now().text));
    if (now().kind == token_kind::name && ahead().kind == token_kind::mark && ahead().text == "=") {
      auto name = take().text;
      take();
      auto given = whole();
      to.depth = std::max(to.depth, given->depth + 1);
      if (to.depth > maximum_depth)
        fail(to.line, fmt::format("an expression has more than {} levels", maximum_depth));
      to.named.emplace_back(std::move(name), std::move(given));
    } else if (!to.named.empty())
      fail(now().line, "an argument without a name follows one with a name");
    else
      add(to, whole());
    if (!take_mark(","))
      break;
  }
  expect_mark(")");
}

expression_pointer expression_parser::call(expression_pointer of) {
  auto out = make(expression_kind::call, now().line);
  check_call(*of);
  add(*out, std::move(of));
  call_arguments(*out);
  return out;
}

void expression_parser::check_call(const expression& callee) const {
  if (callee.kind == expression_kind::attribute && is_one_of(other_methods, callee.text))
    fail(callee.line, fmt::format("the method {}() is not supported", callee.text));
  if (callee.kind == expression_kind::name && is_one_of(other_functions, callee.text))
    fail(callee.line, fmt::format("the function {}() is not supported", callee.text));
}

}  // namespace troupe::runtime::jinja
