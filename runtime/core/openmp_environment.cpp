#include "runtime/core/openmp_environment.hpp"

#include <cstdlib>
#include <string_view>
#include <sys/prctl.h>
#include <unistd.h>

namespace troupe::runtime {
namespace {

/// After execv of /proc/self/exe the process name (comm) is "exe", under which neither ps, top nor
/// pkill find the program: sets it to the file name in argv[0] again.
void restore_process_name(const char* first_word) {
  char name[16] = {};  // as many as the kernel keeps
  ::prctl(PR_GET_NAME, name);
  if (std::string_view(name) != "exe" || first_word == nullptr)
    return;
  const std::string_view path = first_word;
  ::prctl(PR_SET_NAME, path.substr(path.rfind('/') + 1).data());
}

/// Whether the environment has changed.
bool choose_settings() {
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

}  // namespace

void run_with_settings_of_openmp(char* const* argv) {
  if (choose_settings())
    ::execv("/proc/self/exe", argv);
  restore_process_name(argv[0]);
}

}  // namespace troupe::runtime
