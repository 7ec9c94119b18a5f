// The program troupe with the families that only tests have, as a user's program adds its own.

#include "actors/command/commands.hpp"
#include "runtime/core/openmp_environment.hpp"
#include "runtime/transport/ucx_wire.hpp"
#include "tests/support/families.hpp"

int main(int argc, char** argv) {
  troupe::runtime::choose_settings_of_ucx();
  troupe::runtime::run_with_settings_of_openmp(argv);
  troupe::tests::test_families();
  return troupe::command::run_program({argv + 1, argv + argc});
}
