// A template as tokens, by Jinja's rules with trim_blocks and lstrip_blocks on and
// keep_trailing_newline off: the newline behind a block tag and the blanks before one that begins
// its line are not part of the text; a '-' in a tag drops all white space on its side, a '+' none.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime::jinja {

enum class token_kind {
  text,        ///< between the tags
  output,      ///< {{
  output_end,  ///< }}
  block,       ///< {%
  block_end,   ///< %}
  name,
  string,   ///< its value, escapes read
  integer,  ///< as written
  real,     ///< as written
  mark,     ///< an operator or a bracket
  end,      ///< of the template
};

struct token {
  token_kind kind;
  std::string text;
  int line;
};

/// The last token is `end`. Comments are left out. `name` is how messages call the template. Throws
/// input_error for what is no template.
std::vector<token> tokens_of(std::string_view source, const std::string& name);

}  // namespace troupe::runtime::jinja
