// From tokens to a tree. Constructs, filters, tests and methods that are not supported are refused
// here, by name and line, whether they would be reached or not.

#pragma once

#include "runtime/template/lexer.hpp"
#include "runtime/template/tree.hpp"

#include <string>
#include <vector>

namespace troupe::runtime::jinja {

/// Throws input_error.
statements parse(std::vector<token> tokens, const std::string& name);

}  // namespace troupe::runtime::jinja
