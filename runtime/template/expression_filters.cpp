// The expression parser's functions for filters, tests and targets of assignments.

#include "runtime/template/builtins.hpp"
#include "runtime/template/expression_parser.hpp"

namespace troupe::runtime::jinja {

expression_pointer expression_parser::filters(expression_pointer to, bool begun) {
  while (begun || is_mark("|")) {
    if (!begun)
      take();
    begun = false;
    const auto line = now().line;
    auto out = make(expression_kind::filter, line, expect_name("the name of a filter"));
    add(*out, std::move(to));
    if (is_mark("("))
      call_arguments(*out);
    check_filter(*out);
    to = std::move(out);
  }
  return to;
}

void expression_parser::check_filter(const expression& filter) const {
  const auto& name = filter.text;
  if (!is_filter(name))
    fail(filter.line, fmt::format("the filter '{}' is not supported", name));
  const auto constant = [&](std::size_t which) -> const std::string* {
    return filter.parts.size() > which && filter.parts[which]->kind == expression_kind::constant
               ? filter.parts[which]->constant.text()
               : nullptr;
  };
  if (const auto* inner = constant(1); name == "map" && inner != nullptr && !is_filter(*inner))
    fail(filter.line, fmt::format("the filter '{}' is not supported", *inner));
  const bool by_attribute = name == "selectattr" || name == "rejectattr";
  if (by_attribute || name == "select" || name == "reject")
    if (const auto* inner = constant(by_attribute ? 2 : 1); inner != nullptr)
      check_test(*inner, filter.line);
}

void expression_parser::check_test(const std::string& name, int line) const {
  if (!is_test(name))
    fail(line, fmt::format("the test 'is {}' is not supported", name));
}

expression_pointer expression_parser::test(expression_pointer of) {
  const auto line = take().line;
  const bool negative = take_name("not");
  auto out = make(expression_kind::test, line, expect_name("the name of a test"));
  check_test(out->text, line);
  add(*out, std::move(of));
  const auto kind = now().kind;
  if (is_mark("("))
    call_arguments(*out);
  else if ((kind == token_kind::name && !is_name("else") && !is_name("or") && !is_name("and"))
           || kind == token_kind::string || kind == token_kind::integer || kind == token_kind::real
           || is_mark("[") || is_mark("{")) {
    if (is_name("is"))
      fail(now().line, "tests cannot be chained with 'is'");
    const level deeper(*this);
    add(*out, postfix(primary()));
  }
  if (!negative)
    return out;
  auto opposite = make(expression_kind::unary, line, "not");
  add(*opposite, std::move(out));
  return opposite;
}

expression_pointer expression_parser::target(bool attributes) {
  const level deeper(*this);
  const auto one = [&]() -> expression_pointer {
    if (take_mark("(")) {
      auto inner = target(false);
      expect_mark(")");
      return inner;
    }
    auto name = make(expression_kind::name, now().line, expect_name("a name to assign to"));
    for (const auto* fixed : {"true", "false", "none", "True", "False", "None"})
      if (name->text == fixed)
        fail(name->line, fmt::format("'{}' cannot be assigned to", fixed));
    if (!attributes || !take_mark("."))
      return name;
    auto out = make(expression_kind::attribute, name->line, expect_name("an attribute's name"));
    add(*out, std::move(name));
    return out;
  };
  auto first = one();
  if (!is_mark(","))
    return first;
  auto out = make(expression_kind::tuple, first->line);
  add(*out, std::move(first));
  while (take_mark(",") && !is_name("in") && !is_mark("="))
    add(*out, one());
  return out;
}

}  // namespace troupe::runtime::jinja
