// Sets of characters as parts of a grammar: their UTF-8, or their spelling in a JSON string.

#pragma once

#include "runtime/inference/constraint_grammar.hpp"

#include <string>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// Ascending ranges of characters, without surrogates. `normal` makes them from any ranges.
using character_set = std::vector<std::pair<char32_t, char32_t>>;

character_set normal(character_set any);
character_set all_characters();
character_set without(const character_set& from, const character_set& what);

std::string utf8_of(char32_t character);

enum class spelling : std::uint8_t {
  plain,  ///< UTF-8
  json,   ///< in a JSON string: UTF-8, or an escape if JSON requires one
};

/// One character of the set.
constraint_grammar::part character_of(constraint_grammar& to,
                                      const character_set& any,
                                      spelling by);

/// Any character of a JSON string, also as an escape that JSON does not require. Surrogates only in
/// pairs.
constraint_grammar::part json_character(constraint_grammar& to);

}  // namespace troupe::runtime
