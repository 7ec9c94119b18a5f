// Selects complaints about a command line that are reported together.

#pragma once

#include <string>
#include <vector>

namespace troupe::command {

/// The sentences of `more` that name none of the flags in `told`. The others may be consequences,
/// as
/// "--lr is missing" is of "--lr 'fast': give a number".
std::vector<std::string> independent_of(const std::vector<std::string>& told,
                                        std::vector<std::string> more);

}  // namespace troupe::command
