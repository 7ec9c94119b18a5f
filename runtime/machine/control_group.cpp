#include "runtime/machine/control_group.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

/// Larger than any machine's memory: version 1 encodes "no limit" as a huge number.
constexpr std::int64_t no_limit = std::int64_t{1} << 60;

std::vector<std::string> words_of(const fs::path& file) {
  std::ifstream in(file);
  std::vector<std::string> out;
  for (std::string word; in >> word;)
    out.push_back(word);
  return out;
}

std::optional<std::int64_t> number(const fs::path& file) {
  const auto words = words_of(file);
  if (words.empty() || words[0] == "max")
    return std::nullopt;
  std::istringstream in(words[0]);
  std::int64_t out = 0;
  return in >> out ? std::optional(out) : std::nullopt;
}

void take_time(control_group_limits& out, double quota, double period) {
  if (quota > 0 && period > 0)
    out.processors = std::min(out.processors.value_or(quota / period), quota / period);
}

void take_memory(control_group_limits& out, const fs::path& limit, const fs::path& used) {
  const auto bytes = number(limit);
  if (!bytes || *bytes <= 0 || *bytes >= no_limit || (out.memory && *out.memory <= *bytes))
    return;
  out.memory = bytes;
  out.memory_used = number(used).value_or(0);
}

/// Reads the limits of one folder. Missing files are skipped, so it tries the files of both
/// versions.
void take(control_group_limits& out, const fs::path& folder) {
  const auto time = words_of(folder / "cpu.max");
  if (time.size() == 2 && time[0] != "max")
    take_time(out, std::atof(time[0].c_str()), std::atof(time[1].c_str()));
  take_time(out,
            double(number(folder / "cpu.cfs_quota_us").value_or(0)),
            double(number(folder / "cpu.cfs_period_us").value_or(0)));
  take_memory(out, folder / "memory.max", folder / "memory.current");
  take_memory(out, folder / "memory.limit_in_bytes", folder / "memory.usage_in_bytes");
}

}  // namespace

control_group_limits read_control_groups(const fs::path& root) {
  control_group_limits out;
  std::ifstream in(root / "proc/self/cgroup");
  // Version 2: "0::/a/b". Version 1: "4:cpu,cpuacct:/a/b".
  for (std::string line; std::getline(in, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos)
      continue;
    const auto controller = line.substr(first + 1, second - first - 1);
    const auto top = root / "sys/fs/cgroup" / controller;
    for (auto group = fs::path(line.substr(second + 1)).relative_path();;
         group = group.parent_path()) {
      take(out, top / group);
      if (group.empty())
        break;
    }
  }
  return out;
}

}  // namespace troupe::runtime
