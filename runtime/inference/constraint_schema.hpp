// JSON schemas as parts of a grammar (JSON Schema, draft 2020-12, a subset).
//
//   any value      {} or true; type (also several), enum, const, $ref within the document (also
//                  recursive), anyOf, oneOf of schemas that exclude each other, allOf of one schema
//   objects        properties, required, additionalProperties
//   arrays         items, minItems, maxItems
//   strings        minLength, maxLength; or pattern (constraint_expression.hpp); or format: date,
//                  time, date-time, uuid, ipv4, email
//   integers       minimum, maximum, exclusiveMinimum, exclusiveMaximum
//   numbers        minimum, maximum: whole numbers, minimum 0 or more, maximum 0 or more
//
// Titles, descriptions, defaults, examples and comments change nothing. All other keywords are
// refused by name. The texts of the grammar are a subset of those that fit:
//
//   * properties come in the order of the schema, additional ones after them
//   * without additionalProperties, an object with `properties` has no additional ones
//   * keys of additional properties beside listed ones have no escapes
//   * integers have up to 18 digits; numbers up to 18 before and 17 after the point, and an
//   exponent
//     of up to 2 digits
//   * without `type`, keywords for one type (such as `properties`) imply it
//   * white space: one blank is allowed after a colon. After a comma and inside brackets: one
//     blank, or a line feed and up to 64 blanks or tabs. No other

#pragma once

#include "runtime/inference/constraint_grammar.hpp"

#include <string_view>

namespace troupe::runtime {

/// Throws input_error for a text that is not JSON or too large, and for what is not supported.
constraint_grammar::part schema_part(constraint_grammar& to, std::string_view schema);

}  // namespace troupe::runtime
