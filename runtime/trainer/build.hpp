// What this program was made of and from: part of a run's identity, because it changes bits.

#pragma once

#include <map>
#include <string>

namespace troupe::runtime {

/// version, compiler, options (of the compiler), libc (of this machine), and commit: that of the
/// sources when they were configured, where it was known. No path and no name of a machine.
std::map<std::string, std::string> build_identity();

/// The same facts as a line, and what the program does its arithmetic with on this machine:
/// "troupe 0.1.0 (commit ..., GCC 12.2.0, -O2 -g1; AVX3 by Highway 1.0.3, oneDNN 2.6.3 ...)".
std::string version_text();

}  // namespace troupe::runtime
