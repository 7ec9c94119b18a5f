#include "actors/command/commands.hpp"
#include "runtime/transport/ucx_wire.hpp"

#include <csignal>
#include <cstdlib>
#include <unistd.h>

namespace {

/// True if the environment changed.
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

}  // namespace

int main(int argc, char** argv) {
  ::signal(SIGCHLD, SIG_DFL);  // who ignores it, and starts us, would hide how our children end
  ::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of the call that writes it
  troupe::runtime::choose_settings_of_ucx();
  // OpenMP reads its environment when it is loaded, so the program has to start once more. Where
  // /proc is missing it runs as it is.
  if (choose_settings_of_openmp())
    ::execv("/proc/self/exe", argv);
  return troupe::command::run_program({argv + 1, argv + argc});
}
