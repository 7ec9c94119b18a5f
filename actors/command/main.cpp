#include "actors/command/commands.hpp"
#include "runtime/core/openmp_environment.hpp"
#include "runtime/transport/ucx_wire.hpp"

#include <csignal>
#include <unistd.h>

int main(int argc, char** argv) {
  ::signal(SIGCHLD, SIG_DFL);  // who ignores it, and starts us, would hide how our children end
  ::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of the call that writes it
  troupe::runtime::choose_settings_of_ucx();
  // OpenMP reads its environment when it is loaded, so the program has to start once more. Where
  // /proc is missing it runs as it is.
  if (troupe::runtime::choose_settings_of_openmp())
    ::execv("/proc/self/exe", argv);
  return troupe::command::run_program({argv + 1, argv + argc});
}
