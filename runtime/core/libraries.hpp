// Which libraries this room was built with or runs on.

#pragma once

#include <string>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// Name and version, of those that runtime/ uses and that say it.
std::vector<std::pair<std::string, std::string>> library_versions();

}  // namespace troupe::runtime
