// Identifies this build of the program. Part of a run's identity, because the build decides bits.

#pragma once

#include <map>
#include <string>

namespace troupe::runtime {

/// Keys: version, compiler, options (of the compiler), libc (of this machine), and commit (of the
/// sources at configuration, where known). Contains no path and no machine name, so that equal
/// builds compare equal.
std::map<std::string, std::string> build_identity();

/// These facts on one line, with the instruction set and the math libraries of this machine:
/// "troupe 0.1.0 (commit ..., GCC 12.2.0, -O2 -g1; AVX3 by Highway 1.0.3, oneDNN 2.6.3 ...)".
std::string version_text();

}  // namespace troupe::runtime
