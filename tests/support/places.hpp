// Paths of the checkout and the build. Only places.cpp depends on them, so a compiler cache serves
// all other sources in every checkout.

#pragma once

#include <string>

namespace troupe::tests {

/// The checkout's folder.
std::string source_dir();

/// The folder of the build's programs.
std::string bin_dir();

/// The folder of the emulated device's plug-ins.
std::string emulated_plugins_dir();

/// The folder of the test plug-in that replaces cuDNN; empty: beside the program.
std::string test_plugins_dir();

}  // namespace troupe::tests
