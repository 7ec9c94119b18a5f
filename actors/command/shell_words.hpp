// Words for people who paste them into a shell.

#pragma once

#include <string>

namespace troupe::command {

/// As one word of a shell's line, on one line, in UTF-8 whatever its bytes.
std::string for_shell(const std::string& word);

}  // namespace troupe::command
