// The flags of a job that decide its memory and time.

#pragma once

#include "actors/command/flags.hpp"

namespace troupe::command {

/// Keeps what memory and time depend on: shape, batch and layout. Resets all other settings, so
/// that data and tokenizer files may be missing, other than files that settings of the model name.
training_flags shape_and_layout(training_flags flags);

}  // namespace troupe::command
