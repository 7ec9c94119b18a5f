// Explains a forbidden memory access of a thread before it ends the process.

#pragma once

namespace troupe::emulator {

/// Installs a handler of SIGSEGV that prints the explanation and then calls the previous handler.
/// Call it again after another library, such as a test framework, has installed its own.
void explain_faults();

}  // namespace troupe::emulator
