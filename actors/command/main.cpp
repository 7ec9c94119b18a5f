#include "actors/command/commands.hpp"
#include "runtime/transport/ucx_wire.hpp"

#include <cstdlib>
#include <unistd.h>

namespace {

// Law 16: waits sleep. Threads of libgomp spin up to 300,000 times before they sleep, which starves
// whoever else needs the core; 1,000 (some tens of microseconds) cost nothing on a quiet machine.
// It reads its environment when it is loaded, so the program has to start once more. The user's own
// setting is left alone; where /proc is missing the program runs as it is.
void bound_the_spinning_of_openmp(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr)
    return;
  ::setenv("GOMP_SPINCOUNT", "1000", 1);
  ::execv("/proc/self/exe", argv);
}

}  // namespace

int main(int argc, char** argv) {
  troupe::runtime::choose_settings_of_ucx();
  bound_the_spinning_of_openmp(argv);
  return troupe::command::run_program({argv + 1, argv + argc});
}
