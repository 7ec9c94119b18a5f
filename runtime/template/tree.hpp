// The syntax tree of a template. The comments list the members that each kind uses.

#pragma once

#include "runtime/template/value.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe::runtime::jinja {

struct expression;
using expression_pointer = std::unique_ptr<expression>;

enum class expression_kind {
  constant,     ///< constant
  name,         ///< text
  list,         ///< parts
  tuple,        ///< parts
  dict,         ///< parts: key, value, key, value
  attribute,    ///< parts[0].text
  item,         ///< parts[0][parts[1]]
  slice,        ///< parts[0][parts[1]:parts[2]:parts[3]], nullptr for omitted parts
  call,         ///< parts[0](parts[1], ..., named)
  filter,       ///< parts[0] | text(parts[1], ..., named); parts[0] is nullptr in {% filter %}
  test,         ///< parts[0] is text(parts[1], ..., named)
  unary,        ///< text: - + not
  both,         ///< parts[0] and parts[1]
  either,       ///< parts[0] or parts[1]
  conditional,  ///< parts[1] if parts[0] else parts[2], which may be nullptr
  comparison,   ///< parts[0] operators[0] parts[1] operators[1] parts[2] ...
  binary,       ///< parts[0] text parts[1]
  join,         ///< parts, with ~ between
};

struct expression {
  expression_kind kind;
  int line;
  int depth = 1;
  std::string text;
  value constant;
  std::vector<expression_pointer> parts;
  std::vector<std::pair<std::string, expression_pointer>> named;
  std::vector<std::string> operators;
};

struct statement;
using statements = std::vector<statement>;

enum class statement_kind {
  text,          ///< text
  output,        ///< {{ first }}
  for_loop,      ///< for target in first if second: body, else: otherwise
  condition,     ///< branches, else: otherwise
  set,           ///< target = first
  set_block,     ///< target = body, through the filters `first` unless it is nullptr
  macro,         ///< text(parameters): body
  filter_block,  ///< body through the filters `first`
  with,          ///< assignments; body
  generation,    ///< body: the text of the assistant
  break_loop,
  continue_loop,
};

struct parameter {
  std::string name;
  expression_pointer otherwise;  ///< default value; nullptr: undefined
};

struct branch {
  expression_pointer condition;
  statements body;
};

struct assignment {
  expression_pointer target, to;
};

struct statement {
  statement_kind kind;
  int line;
  std::string text = {};
  expression_pointer target = {}, first = {}, second = {};
  std::vector<branch> branches = {};
  std::vector<assignment> assignments = {};
  std::vector<parameter> parameters = {};
  statements body = {}, otherwise = {};
  bool takes_more = false, takes_more_named = false;  ///< the macro uses varargs, kwargs
};

}  // namespace troupe::runtime::jinja
