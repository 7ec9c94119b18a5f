// `troupe tokenizer chat`: a conversation becomes a prompt.

#pragma once

#include "actors/command/command_line.hpp"

namespace troupe::command {

void add_chat(command_line& tokenizer);

}  // namespace troupe::command
