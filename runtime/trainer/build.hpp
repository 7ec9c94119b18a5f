// What this program was made of and from: part of a run's identity, because it changes bits.

#pragma once

#include <map>
#include <string>

namespace troupe::runtime {

/// version, compiler, libc (of this machine), and commit: that of the sources when they were
/// configured, where it was known. No path and no name of a machine.
std::map<std::string, std::string> build_identity();

}  // namespace troupe::runtime
