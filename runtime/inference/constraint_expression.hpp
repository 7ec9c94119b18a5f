// Regular expressions as parts of a grammar.
//
//   abc  .  [a-z]  [^a-z]          characters of UTF-8; . is any but a line feed
//   (a)  (?:a)  (?<name>a)  (?P<name>a)  a|b                          groups, all alike
//   a*  a+  a?  a{2}  a{2,}  a{2,5}      bounds up to 1,000,000; a lazy mark ? changes nothing
//   \d \w \s \D \W \S              of ASCII, as in JavaScript without its other spaces
//   \n \r \t \f \v \0 \x41 \u0041 \u{1F600}, and \ before punctuation
//   ^  $                           only at the ends of the whole expression or of its alternatives
//
// All else is refused by name: references, assertions, properties, options, possessive marks.

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
