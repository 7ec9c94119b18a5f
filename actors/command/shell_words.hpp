// Quotes words, so that users can paste them into a shell.

#pragma once

#include <string>

namespace troupe::command {

/// `word` quoted as one word of a shell: one line of valid UTF-8, whatever its bytes.
std::string for_shell(const std::string& word);

}  // namespace troupe::command
