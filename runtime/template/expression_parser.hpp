// A recursive-descent parser of expressions in Jinja's grammar; the private functions are in order
// of ascending precedence.

#pragma once

#include "runtime/template/lexer.hpp"
#include "runtime/template/tree.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime::jinja {

class expression_parser {
 public:
  expression_parser(std::vector<token> tokens, const std::string& name)
      : name_(name), tokens_(std::move(tokens)) {}

 protected:
  /// Expressions separated by commas are a tuple. `conditional`: allows "a if b else c".
  expression_pointer tuple(bool conditional = true);
  expression_pointer whole(bool conditional = true);
  /// Parses "| name(...) | ..." after `to`, which is nullptr in a block. `begun`: the first | is
  /// already read.
  expression_pointer filters(expression_pointer to, bool begun);
  /// The target of an assignment: a name, several names separated by commas, or name.attribute.
  expression_pointer target(bool attributes);

  const token& now() const { return tokens_[at_]; }
  const token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  bool is_mark(std::string_view mark) const;
  bool is_name(std::string_view name) const;
  bool take_mark(std::string_view mark);
  bool take_name(std::string_view name);
  void expect_mark(std::string_view mark);
  std::string expect_name(std::string_view what);
  void expect(token_kind kind, std::string_view what);
  token take() { return tokens_[at_ < tokens_.size() - 1 ? at_++ : at_]; }

  [[noreturn]] void fail(int line, const std::string& what) const;
  [[noreturn]] void unexpected(std::string_view wanted) const;
  expression_pointer make(expression_kind kind, int line, std::string text = {}) const;
  /// Adds a part. Throws beyond maximum_depth.
  void add(expression& to, expression_pointer part) const;

  class level;

  /// Uses of the names varargs and kwargs so far, to detect them in a macro.
  int varargs_ = 0, kwargs_ = 0;

 private:
  expression_pointer either();
  expression_pointer both();
  expression_pointer negated();
  expression_pointer comparison();
  expression_pointer sum();
  expression_pointer joined();
  expression_pointer product();
  expression_pointer power();
  expression_pointer unary(bool with_filters = true);
  expression_pointer primary();
  expression_pointer postfix(expression_pointer of);
  expression_pointer behind(expression_pointer of);
  expression_pointer subscript(expression_pointer of);
  expression_pointer element(expression_pointer of);
  expression_pointer call(expression_pointer of);
  expression_pointer test(expression_pointer of);
  expression_pointer list();
  expression_pointer dict();
  expression_pointer in_brackets();
  expression_pointer binary(expression_pointer left, expression_pointer right, const token& by);
  void call_arguments(expression& to);
  void check_filter(const expression& filter) const;
  void check_test(const std::string& name, int line) const;
  void check_call(const expression& callee) const;

  const std::string& name_;
  std::vector<token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

/// RAII: counts one level of nesting, to bound the recursion of the parser.
class expression_parser::level {
 public:
  explicit level(expression_parser& of);
  ~level() { --of_.depth_; }
  level(const level&) = delete;
  level& operator=(const level&) = delete;

 private:
  expression_parser& of_;
};

}  // namespace troupe::runtime::jinja
