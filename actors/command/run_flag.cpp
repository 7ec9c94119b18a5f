#include "actors/command/run_flag.hpp"

#include <system_error>

namespace troupe::command {

std::shared_ptr<named_run_folder> declare_run(command_line& line) {
  auto out = std::make_shared<named_run_folder>();
  line.words(
      "DIR", "Folder of the run: the one of --run at its start, or its --save folder.", out->words);
  line.value({.name = "--run", .type = "DIR", .help = "DIR as a flag."}, text(out->flag));
  return out;
}

runtime::run_folder open_run(const named_run_folder& given) {
  const auto named = given.words.size() + (given.flag.empty() ? 0 : 1);
  if (named == 0)
    throw usage_error("the run is missing: give its folder or its --save folder");
  if (named > 1)
    throw usage_error("give one run, not {}", named);
  const auto folder = given.flag.empty() ? std::filesystem::path(given.words.front()) : given.flag;
  std::error_code failure;
  const auto below = folder / ".run";
  const bool is_save_folder = !std::filesystem::exists(folder / "run.json", failure)
                              && std::filesystem::exists(below / "run.json", failure);
  return runtime::run_folder::open(is_save_folder ? below : folder);
}

}  // namespace troupe::command
