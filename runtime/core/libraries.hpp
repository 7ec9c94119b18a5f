// Versions of the libraries that runtime/ uses.

#pragma once

#include <string>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// (name, version) of each library that reports its version.
std::vector<std::pair<std::string, std::string>> library_versions();

}  // namespace troupe::runtime
