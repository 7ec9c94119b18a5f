// Complaints about a command line that are told at once.

#pragma once

#include <string>
#include <vector>

namespace troupe::command {

/// Of `more` the sentences that name no flag which `told` names: the others may only follow from
/// what is told, as "--lr is missing" does from "--lr 'fast': give a number".
std::vector<std::string> independent_of(const std::vector<std::string>& told,
                                        std::vector<std::string> more);

}  // namespace troupe::command
