// What OpenMP reads of the environment when it is loaded.

#pragma once

namespace troupe::runtime {

/// Chooses it, for programs whose threads are a setting of the run. OpenMP has read the environment
/// by then, so where it changes the program is executed once more with the words `argv`, which end
/// with a null pointer, under its own name; called before it has a second thread. Where
/// /proc is missing it goes on as it is.
void run_with_settings_of_openmp(char* const* argv);

}  // namespace troupe::runtime
