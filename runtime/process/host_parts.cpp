#include "runtime/process/host_parts.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view part_word_prefix = "troupe:";

std::string value_after(const std::vector<std::string>& words, const std::string& name) {
  const auto found = std::find(words.begin(), words.end(), name);
  return found == words.end() || found + 1 == words.end() ? "" : *(found + 1);
}

/// `word` may be relative to the process's working directory.
bool is_folder(const std::string& word, pid_t pid, const fs::path& folder) {
  fs::path named(word);
  std::error_code none;
  if (named.is_relative())
    named = fs::read_symlink(fmt::format("/proc/{}/cwd", pid), none) / named;
  return fs::weakly_canonical(named, none) == fs::weakly_canonical(folder, none)
         || (fs::equivalent(named, folder, none) && !none);
}

void each_process(const std::function<void(pid_t, const std::vector<std::string>&)>& take) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const auto name = entry.path().filename().string();
    pid_t pid = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (read.ec == std::errc() && read.ptr == name.data() + name.size())
      take(pid, command_of(pid));
  }
}

struct found_part {
  part_line line;
  process_id id;
};

std::vector<found_part> found_parts(const fs::path& folder) {
  std::vector<found_part> out;
  each_process([&](pid_t pid, const std::vector<std::string>& words) {
    auto line = read_part_line(words);
    if (!line || !is_folder(line->folder, pid, folder))
      return;
    if (const auto facts = look_at_process(pid); facts && facts->state != 'Z')
      out.push_back({std::move(*line), facts->id});
  });
  return out;
}

}  // namespace

std::optional<part_line> read_part_line(const std::vector<std::string>& words) {
  if (words.size() < 2 || !words[1].starts_with(part_word_prefix))
    return std::nullopt;
  part_line out{.name = words[1].substr(part_word_prefix.size()),
                .folder = value_after(words, "run")};
  if (out.folder.empty())
    return std::nullopt;
  if (const auto place = value_after(words, "process"); !place.empty())
    out.name += "-" + place;
  const auto number = value_after(words, "incarnation");
  std::from_chars(number.data(), number.data() + number.size(), out.incarnation);
  return out;
}

std::optional<std::string> folder_of_standing_node(const std::vector<std::string>& words,
                                                   const std::string& flag) {
  if (words.size() < 2 || words[1] != "node")
    return std::nullopt;
  for (std::size_t i = 2; i < words.size(); ++i) {
    if (words[i] == flag && i + 1 < words.size())
      return words[i + 1];
    if (words[i].starts_with(flag + "="))
      return words[i].substr(flag.size() + 1);
  }
  return std::nullopt;
}

std::vector<host_part> parts_of_host(const fs::path& folder) {
  const auto all = found_parts(folder);
  const auto age
      = [](const found_part& x) { return std::pair(x.line.incarnation, x.id.start_time); };
  std::map<std::string, const found_part*> newest;
  for (const auto& x : all) {
    auto& it = newest[x.line.name];
    if (it == nullptr || age(*it) < age(x))
      it = &x;
  }
  std::vector<host_part> out;
  for (const auto& [name, part] : newest)
    out.push_back({name, part->id, part->line.incarnation});
  return out;
}

std::vector<process_id> processes_of_host(const fs::path& folder) {
  std::vector<process_id> out;
  for (const auto& x : found_parts(folder))
    out.push_back(x.id);
  return out;
}

bool is_part_of(const fs::path& folder, pid_t pid) {
  const auto line = read_part_line(command_of(pid));
  return line && is_folder(line->folder, pid, folder);
}

std::optional<process_id> standing_node_of(const fs::path& folder, const std::string& flag) {
  std::optional<process_id> out;
  each_process([&](pid_t pid, const std::vector<std::string>& words) {
    const auto named = folder_of_standing_node(words, flag);
    if (!named || !is_folder(*named, pid, folder))
      return;
    if (const auto facts = look_at_process(pid); facts && facts->state != 'Z')
      out = facts->id;
  });
  return out;
}

}  // namespace troupe::runtime
