#include "actors/command/run_flag.hpp"

#include <system_error>

namespace troupe::command {

std::shared_ptr<std::filesystem::path> declare_run(command_line& line) {
  auto out = std::make_shared<std::filesystem::path>();
  line.value({.name = "--run",
              .type = "DIR",
              .help = "The run's folder: that of --run when it was started, or its --save folder, "
                      "whose .run it is then."},
             text(*out));
  return out;
}

runtime::run_folder open_run(const std::filesystem::path& given) {
  if (given.empty())
    throw usage_error("--run is missing: name the run's folder, or its --save folder");
  std::error_code failure;
  const auto below = given / ".run";
  const bool is_save_folder = !std::filesystem::exists(given / "run.json", failure)
                              && std::filesystem::exists(below / "run.json", failure);
  return runtime::run_folder::open(is_save_folder ? below : given);
}

}  // namespace troupe::command
