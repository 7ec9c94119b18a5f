#include "runtime/machine/machine.hpp"

#include "kernels/backend/backend.hpp"
#include "runtime/file/file.hpp"
#include "runtime/machine/control_group.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sched.h>
#include <sstream>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

constexpr const char* instructions_that_matter[] = {"sse4_1",
                                                    "avx",
                                                    "avx2",
                                                    "fma",
                                                    "f16c",
                                                    "avx512f",
                                                    "avx512bw",
                                                    "avx512_vnni",
                                                    "avx512_bf16",
                                                    "avx512_fp16",
                                                    "amx_tile",
                                                    "amx_bf16",
                                                    "amx_int8",
                                                    "asimd",
                                                    "sve",
                                                    "sve2",
                                                    "bf16"};

/// The text after "key :" in the file's first line that starts with `key`.
std::string value_in(const fs::path& file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(key))
      continue;
    const auto begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

/// Reads a value of /proc/meminfo, in which all values are in kB, and returns bytes.
std::int64_t kilobytes_in(const fs::path& file, std::string_view key) {
  return std::atoll(value_in(file, key).c_str()) * 1024;
}

int allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

std::optional<std::int64_t> soft_limit(int which) {
  rlimit x{};
  if (::getrlimit(decltype(RLIMIT_NOFILE)(which), &x) != 0 || x.rlim_cur == RLIM_INFINITY)
    return std::nullopt;
  return std::int64_t(x.rlim_cur);
}

}  // namespace

int processor_facts::usable() const {
  int out = allowed > 0 ? allowed : online;
  if (quota)
    out = std::min(out, int(std::ceil(*quota)));
  return std::max(out, 1);
}

std::int64_t memory_facts::usable() const {
  return limit ? std::min(available, std::max<std::int64_t>(0, *limit - used_of_limit)) : available;
}

std::int64_t memory_facts::ceiling() const {
  return std::min(total, limit.value_or(total)) + swap;
}

processor_facts look_at_processor(const fs::path& root) {
  const auto info = root / "proc/cpuinfo";
  processor_facts out;
  out.name = value_in(info, "model name");
  out.online = int(::sysconf(_SC_NPROCESSORS_ONLN));
  out.allowed = allowed_processors();
  out.quota = read_control_groups(root).processors;
  std::istringstream flags(value_in(info, "flags") + " " + value_in(info, "Features"));
  std::vector<std::string> all;
  for (std::string word; flags >> word;)
    all.push_back(word);
  for (const auto* name : instructions_that_matter)
    if (std::find(all.begin(), all.end(), name) != all.end())
      out.instructions.emplace_back(name);
  out.arithmetic = kernels::instruction_set();
  std::ifstream(root / "sys/devices/system/clocksource/clocksource0/current_clocksource")
      >> out.clock;
  return out;
}

memory_facts look_at_memory(const fs::path& root) {
  const auto info = root / "proc/meminfo";
  const auto group = read_control_groups(root);
  return {.total = kilobytes_in(info, "MemTotal"),
          .available = kilobytes_in(info, "MemAvailable"),
          .limit = group.memory,
          .used_of_limit = group.memory_used,
          .swap = kilobytes_in(info, "SwapTotal")};
}

disk_facts look_at_disk(const fs::path& folder) {
  disk_facts out{.folder = folder, .existing = folder};
  std::error_code failure;
  if (!fs::exists(folder, failure)) {
    out.existing = fs::absolute(folder).lexically_normal();
    while (!fs::exists(out.existing, failure) && out.existing.has_relative_path())
      out.existing = out.existing.parent_path();
  }
  struct statvfs x {};
  if (::statvfs(out.existing.c_str(), &x) == 0) {
    out.total = std::int64_t(x.f_blocks) * std::int64_t(x.f_frsize);
    out.available = std::int64_t(x.f_bavail) * std::int64_t(x.f_frsize);
  }
  out.obstacle = write_obstacle(folder / "x").value_or("");
  return out;
}

limit_facts look_at_limits(const fs::path& shared_memory) {
  limit_facts out{.open_files = soft_limit(RLIMIT_NOFILE),
                  .locked_memory = soft_limit(RLIMIT_MEMLOCK),
                  .stack = soft_limit(RLIMIT_STACK)};
  struct statvfs x {};
  if (::statvfs(shared_memory.c_str(), &x) == 0)
    out.shared_memory = std::int64_t(x.f_blocks) * std::int64_t(x.f_frsize);
  return out;
}

bool has_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (!folder.empty() && ::access((fs::path(folder) / name).c_str(), X_OK) == 0)
      return true;
  return false;
}

}  // namespace troupe::runtime
