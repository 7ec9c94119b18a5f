// The parser: builds a syntax tree from tokens. Refuses unsupported constructs, filters, tests and
// methods with name and line, even in code that never runs.

#pragma once

#include "runtime/template/lexer.hpp"
#include "runtime/template/tree.hpp"

#include <string>
#include <vector>

namespace troupe::runtime::jinja {

/// Throws input_error.
statements parse(std::vector<token> tokens, const std::string& name);

}  // namespace troupe::runtime::jinja
