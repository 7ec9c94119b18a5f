#include "actors/command/saved_configuration.hpp"

#include "actors/command/configuration.hpp"
#include "runtime/core/log.hpp"
#include "runtime/file/file.hpp"

#include <map>
#include <system_error>

namespace troupe::command {
namespace {

namespace fs = std::filesystem;

using meaning = std::map<std::string, std::vector<std::string>>;

/// Leaves out a `load` that equals `save`: it resumes the run.
meaning meaning_of(const std::string& text) {
  meaning out;
  for (auto& entry : parse_configuration(text, "a configuration").entries)
    out[entry.key] = std::move(entry.words);
  const auto load = out.find("load"), save = out.find("save");
  if (load != out.end() && save != out.end() && load->second == save->second)
    out.erase(load);
  return out;
}

/// True if both have the same entries, whatever their comments. An unreadable file differs.
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
  runtime::remove_all_parts_of(file);
  if (fs::is_regular_file(file)) {  // a FIFO or a device has nothing to keep
    if (says_the_same(file, text))
      return;
    const auto before = free_name(folder);
    // Makes a link instead of a rename, so that config.yaml exists at every moment.
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
