// Reads the description of a cluster (docs/formats/cluster.md).

#pragma once

#include "runtime/forecast/cluster.hpp"

#include <string>

namespace troupe::command {

/// Throws input_error with file and line for text that is not YAML, an unknown, missing or repeated
/// key, a missing or wrong unit, and a number out of its range.
runtime::cluster_outline parse_cluster(const std::string& text, const std::string& file);

/// Also throws io_error if the file cannot be read.
runtime::cluster_outline read_cluster(const std::string& file);

}  // namespace troupe::command
