// The lexer: splits a template into tokens by Jinja's rules with trim_blocks and lstrip_blocks on
// and keep_trailing_newline off. It drops the newline after a block tag, and the blanks before a
// block tag that begins a line. A '-' in a tag drops all white space on its side; a '+' keeps it.

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
  string,   ///< the value, with escapes resolved
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

/// The last token is `end`. Skips comments. `name` is the template's name in messages. Throws
/// input_error for an invalid template.
std::vector<token> tokens_of(std::string_view source, const std::string& name);

}  // namespace troupe::runtime::jinja
