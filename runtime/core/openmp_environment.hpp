// What OpenMP reads of the environment when it is loaded.

#pragma once

namespace troupe::runtime {

/// Chooses it for programs whose threads are a setting of the run. True when the environment has
/// changed: the program has to be executed once more, before it has a second thread.
bool choose_settings_of_openmp();

}  // namespace troupe::runtime
