// The log in the words of its reader: a program's flags, a library's settings.

#pragma once

#include <string>
#include <string_view>

namespace troupe::runtime {

/// A program may call things by other names than the library does: from now on every line of the
/// log is what `words` makes of it, on the thread that logs. Call it once, before other threads
/// log.
void set_log_words(std::string (*words)(std::string_view));

}  // namespace troupe::runtime
