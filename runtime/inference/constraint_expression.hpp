// Regular expressions as parts of a grammar. docs/formats/constraint.md has their syntax.

#pragma once

#include "runtime/inference/constraint_characters.hpp"

#include <string_view>

namespace troupe::runtime {

enum class expression_scope : std::uint8_t {
  whole,  ///< a text fits as a whole; ^ and $ change nothing
  found,  ///< a text fits if the expression is found in it, as JSON Schema's "pattern"
};

/// Throws input_error with the expression, the byte and the reason.
constraint_grammar::part expression_part(constraint_grammar& to,
                                         std::string_view expression,
                                         expression_scope scope,
                                         spelling by);

}  // namespace troupe::runtime
