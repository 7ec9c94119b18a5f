#include "runtime/core/openmp_environment.hpp"

#include <cstdlib>
#include <string_view>
#include <sys/prctl.h>
#include <unistd.h>

namespace troupe::runtime {
namespace {

/// After execv of /proc/self/exe the process name (comm) is "exe". Sets it to the file name in
/// argv[0], so that ps, top and pkill find the program.
void restore_process_name(const char* first_word) {
  char name[16] = {};  // the kernel's limit
  ::prctl(PR_GET_NAME, name);
  if (std::string_view(name) != "exe" || first_word == nullptr)
    return;
  const std::string_view path = first_word;
  ::prctl(PR_SET_NAME, path.substr(path.rfind('/') + 1).data());
}

/// Returns true if it changed the environment.
bool choose_settings() {
  bool changed = false;
  // Waits sleep. By default libgomp spins up to 300,000 times first, which starves other threads of
  // the core; 1,000 spins (some tens of microseconds) cost nothing on an idle machine. A setting of
  // the user takes precedence.
  if (std::getenv("GOMP_SPINCOUNT") == nullptr && std::getenv("OMP_WAIT_POLICY") == nullptr) {
    ::setenv("GOMP_SPINCOUNT", "1000", 1);
    changed = true;
  }
  // The run sets the threads per worker, which determine its bits. No call can lift this limit.
  if (std::getenv("OMP_THREAD_LIMIT") != nullptr) {
    ::unsetenv("OMP_THREAD_LIMIT");
    changed = true;
  }
  return changed;
}

}  // namespace

void run_with_settings_of_openmp(char* const* argv) {
  if (choose_settings())
    ::execv("/proc/self/exe", argv);
  restore_process_name(argv[0]);
}

}  // namespace troupe::runtime
