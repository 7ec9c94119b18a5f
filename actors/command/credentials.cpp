#include "runtime/process/credentials.hpp"

#include "actors/command/commands.hpp"
#include "runtime/core/log.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace troupe::command {
namespace {

int make(const std::vector<std::string>& words) {
  if (words.size() != 1)
    throw usage_error("troupe credentials takes one folder, which it makes; {} were given",
                      words.size());
  const std::filesystem::path folder = words.front();
  std::error_code failure;
  if (std::filesystem::exists(folder, failure) && !std::filesystem::is_empty(folder, failure))
    throw usage_error(
        "'{}' is there, and not empty: name a new folder, so that no credentials are "
        "lost",
        folder.string());
  runtime::make_credentials(folder, "hosts");
  runtime::log_info(
      "credentials are in '{}'; copy it, with its modes, to each host of your runs "
      "(as `rsync -a` does): who can read it can take part in them",
      folder.string());
  return 0;
}

}  // namespace

void add_credentials(command_line& program) {
  auto& line = program.command(
      "credentials", "makes what the nodes of several hosts and their runs know each other by.");
  const auto words = std::make_shared<std::vector<std::string>>();
  line.words("DIR", "A new folder, for this user alone.", *words);
  line.note(
      "Copy the folder to every host, for `troupe node --listen` and `troupe train ... --nodes`. "
      "It "
      "has a certificate of its own authority, with its key, and a secret; the authority's key is "
      "forgotten. Valid for ten years; for another set of hosts or users make another one.");
  line.runs([words] { return make(*words); });
}

}  // namespace troupe::command
