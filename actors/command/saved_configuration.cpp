#include "actors/command/saved_configuration.hpp"

#include "actors/command/configuration.hpp"
#include "runtime/core/file.hpp"
#include "runtime/core/log.hpp"

#include <map>
#include <system_error>

namespace troupe::command {
namespace {

namespace fs = std::filesystem;

using meaning = std::map<std::string, std::vector<std::string>>;

meaning meaning_of(const std::string& text) {
  meaning out;
  for (auto& entry : parse_configuration(text, "a configuration").entries)
    out[entry.key] = std::move(entry.words);
  return out;
}

/// Comments aside. What cannot be read says something else.
bool says_the_same(const fs::path& file, const std::string& text) {
  try {
    return meaning_of(runtime::read_text(file)) == meaning_of(text);
  } catch (const runtime::error&) {
    return false;
  }
}

fs::path free_name(const fs::path& folder) {
  for (int i = 1;; ++i)
    if (auto name = folder / fmt::format("config.{}.yaml", i); !fs::exists(name))
      return name;
}

}  // namespace

void save_configuration(const fs::path& folder, const std::string& text) {
  const auto file = folder / configuration_file;
  runtime::remove_parts_of(file);
  if (fs::is_regular_file(file)) {  // of a FIFO or a device there is nothing to keep
    if (says_the_same(file, text))
      return;
    const auto before = free_name(folder);
    // A link, not a renaming: at every moment there is a config.yaml.
    std::error_code failure;
    fs::create_hard_link(file, before, failure);
    if (failure)
      runtime::write_text(before, runtime::read_text(file));
    runtime::log_info(" configuration changed; the previous one is saved as {}", before.string());
  }
  runtime::write_text(file, text);
  runtime::log_info(" configuration kept in {}", file.string());
}

}  // namespace troupe::command
