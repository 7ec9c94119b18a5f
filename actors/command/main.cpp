#include "actors/command/commands.hpp"
#include "runtime/core/openmp_environment.hpp"
#include "runtime/file/open_files.hpp"
#include "runtime/transport/ucx_wire.hpp"

#include <algorithm>
#include <csignal>
#include <string_view>

namespace {

/// False for help and for commands that only inspect a run or print: they do not use OpenMP, and
/// executing the program again would take half of their time.
bool may_compute(int argc, char** argv) {
  constexpr std::string_view lookers[] = {"status",
                                          "monitor",
                                          "ctl",
                                          "ledger",
                                          "wait",
                                          "stop",
                                          "plot",
                                          "layout",
                                          "completion",
                                          "manual",
                                          "credentials"};
  if (argc < 2 || std::ranges::find(lookers, std::string_view(argv[1])) != std::end(lookers))
    return false;
  const auto first_flag
      = std::find_if(argv + 1, argv + argc, [](const char* word) { return *word == '-'; });
  if (first_flag == argv + argc)
    return true;
  const std::string_view flag = *first_flag;
  return flag != "--help" && flag != "-h" && flag != "--version";
}

}  // namespace

int main(int argc, char** argv) {
  ::signal(SIGCHLD, SIG_DFL);  // an inherited SIG_IGN would hide how children end
  ::signal(SIGXFSZ, SIG_IGN);  // writing beyond the size limit is an error of that call
  troupe::runtime::raise_limit_of_open_files();
  troupe::runtime::choose_settings_of_ucx();
  if (may_compute(argc, argv))
    troupe::runtime::run_with_settings_of_openmp(argv);
  return troupe::command::run_program({argv + 1, argv + argc});
}
