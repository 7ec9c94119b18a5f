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
    throw usage_error("troupe credentials takes one folder, which it creates; {} are given",
                      words.size());
  const std::filesystem::path folder = words.front();
  std::error_code failure;
  if (std::filesystem::exists(folder, failure) && !std::filesystem::is_empty(folder, failure))
    throw usage_error(
        "'{}' exists and is not empty: name a new folder, so that no credentials are "
        "lost",
        folder.string());
  runtime::make_credentials(folder, "hosts");
  runtime::log_info(
      "credentials are in '{}'; copy it with its file modes to each host of your runs "
      "(as `rsync -a` does); every user who can read it can join these runs",
      folder.string());
  return 0;
}

}  // namespace

void add_credentials(command_line& program) {
  auto& line = program.command("credentials",
                               "creates credentials for the nodes and runs of several hosts.");
  const auto words = std::make_shared<std::vector<std::string>>();
  line.words("DIR", "A new folder, accessible to this user only.", *words);
  line.note(
      "Copy the folder to every host, for `troupe node --listen` and `troupe train ... --nodes`. "
      "It has a certificate of its own authority, with its key, and a secret; the authority's key "
      "is discarded. The certificate is valid for ten years. Create another folder for another "
      "set of hosts or users.");
  line.runs([words] { return make(*words); });
}

}  // namespace troupe::command
