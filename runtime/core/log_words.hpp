// Translates log lines into the reader's terms: flags of a program instead of settings of the
// library.

#pragma once

#include <string>
#include <string_view>

namespace troupe::runtime {

/// Passes every log line through `words`, on the logging thread. Call it once, before other threads
/// log.
void set_log_words(std::string (*words)(std::string_view));

}  // namespace troupe::runtime
