// Environment variables that OpenMP reads when it is loaded.

#pragma once

namespace troupe::runtime {

/// Sets them for programs that choose their own number of threads. OpenMP has read the environment
/// before main, so a change executes the program again under its own name, with `argv` (ends with a
/// null pointer). Call it before starting a second thread. Has no effect without /proc.
void run_with_settings_of_openmp(char* const* argv);

}  // namespace troupe::runtime
