#include "actors/command/commands.hpp"
#include "runtime/core/openmp_environment.hpp"
#include "runtime/transport/ucx_wire.hpp"

#include <csignal>

int main(int argc, char** argv) {
  ::signal(SIGCHLD, SIG_DFL);  // who ignores it, and starts us, would hide how our children end
  ::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of the call that writes it
  troupe::runtime::choose_settings_of_ucx();
  troupe::runtime::run_with_settings_of_openmp(argv);
  return troupe::command::run_program({argv + 1, argv + argc});
}
