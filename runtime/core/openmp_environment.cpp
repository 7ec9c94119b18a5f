#include "runtime/core/openmp_environment.hpp"

#include <cstdlib>

namespace troupe::runtime {

bool choose_settings_of_openmp() {
  bool changed = false;
  // Law 17: waits sleep. Threads of libgomp spin up to 300,000 times before they sleep, which
  // starves others that need the core; 1,000 (some tens of microseconds) cost nothing on a quiet
  // machine. The user's own setting is left alone.
  if (std::getenv("GOMP_SPINCOUNT") == nullptr && std::getenv("OMP_WAIT_POLICY") == nullptr) {
    ::setenv("GOMP_SPINCOUNT", "1000", 1);
    changed = true;
  }
  // Threads per worker are a setting of the run and decide its bits. No call undoes this limit.
  if (std::getenv("OMP_THREAD_LIMIT") != nullptr) {
    ::unsetenv("OMP_THREAD_LIMIT");
    changed = true;
  }
  return changed;
}

}  // namespace troupe::runtime
