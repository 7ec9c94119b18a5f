// Lists of hosts and of their tasks, as Slurm writes them.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// Expands "gpu[001-004,7],login-[a,b],x[1-2]-rack[3-4]" to gpu001, gpu002, gpu003, gpu004, gpu7,
/// login-a, ... x1-rack3, x1-rack4, x2-rack3, x2-rack4. Numbers of a range are as wide as its first
/// one. Throws input_error with `what` and the character where reading stopped.
std::vector<std::string> hosts_in_list(std::string_view text, std::string_view what);

/// Expands "2(x3),1" to 2, 2, 2, 1: the tasks of each host. Throws like hosts_in_list.
std::vector<int> counts_in_list(std::string_view text, std::string_view what);

}  // namespace troupe::runtime
