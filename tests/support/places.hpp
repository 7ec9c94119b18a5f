// Where things lie: said by one source, so that the others are the same in every checkout, and a
// compiler cache serves all of them.

#pragma once

#include <string>

namespace troupe::tests {

/// The checkout's folder.
std::string source_dir();

/// The folder of the build's programs.
std::string bin_dir();

/// The folder of the emulated device's plug-ins.
std::string emulated_plugins_dir();

/// The folder of a plug-in for tests, in cuDNN's place; empty: beside the program.
std::string test_plugins_dir();

}  // namespace troupe::tests
