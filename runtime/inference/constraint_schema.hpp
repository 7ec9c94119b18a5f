// JSON schemas (draft 2020-12, a subset) as parts of a grammar. docs/formats/constraint.md has the
// keywords, and which of the texts that fit are in the grammar.

#pragma once

#include "runtime/inference/constraint_grammar.hpp"

#include <string_view>

namespace troupe::runtime {

/// Throws input_error for a text that is not JSON or too large, and for what is not supported.
constraint_grammar::part schema_part(constraint_grammar& to, std::string_view schema);

}  // namespace troupe::runtime
