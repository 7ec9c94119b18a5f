#include "actors/command/doctor_findings.hpp"

#include "actors/command/doctor_gpu.hpp"
#include "runtime/core/counted.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace troupe::command {
namespace {

using findings = std::vector<finding>;

constexpr std::int64_t mega = 1 << 20;

// The program and its libraries take some 60 MB, the smallest useful model as much.
constexpr std::int64_t least_memory = 256 * mega;
// Room for a checkpoint of such a model, with its moments, and for the log.
constexpr std::int64_t least_disk = 64 * mega;
// A data set, shards and the log. Actors open no files.
constexpr std::int64_t least_files = 64;

bool has(const runtime::processor_facts& x, const char* instruction) {
  return std::find(x.instructions.begin(), x.instructions.end(), instruction)
         != x.instructions.end();
}

void look(const runtime::processor_facts& x, findings& out) {
  if (x.usable() < x.online)
    out.push_back(
        {weight::note,
         "processor",
         fmt::format("this process may use {} of {} processors", x.usable(), x.online),
         fmt::format("keep workers x --threads-per-worker at {} or below, or raise the limit: "
                     "taskset -p $$, docker run --cpus",
                     x.usable())});
  if (!x.instructions.empty() && !has(x, "avx2") && !has(x, "asimd"))
    out.push_back({weight::note,
                   "processor",
                   "it has no AVX2: everything works, but slowly",
                   "use another machine"});
  if (!has(x, "avx512_bf16") && !has(x, "amx_bf16"))
    out.push_back({weight::note,
                   "processor",
                   "it has no bf16 instructions: --bf16 saves memory but is as slow as fp32",
                   ""});
  for (const auto* slow : {"hpet", "acpi_pm", "xen", "jiffies", "refined-jiffies"})
    if (x.clock == slow)
      out.push_back({weight::note,
                     "clock",
                     fmt::format("the clock source {} is slow to read: traces cost more", x.clock),
                     "as root, if tsc is available: echo tsc > "
                     "/sys/devices/system/clocksource/clocksource0/current_clocksource"});
}

void look(const runtime::memory_facts& x, findings& out) {
  if (x.usable() < least_memory)
    out.push_back({weight::missing,
                   "memory",
                   fmt::format("{} are available; even a small run needs {}",
                               runtime::human_bytes(x.usable()),
                               runtime::human_bytes(least_memory)),
                   x.limit && *x.limit < x.total ? "raise the limit: docker run --memory, systemd "
                                                   "MemoryMax; or end other programs there"
                                                 : "end other programs: ps aux --sort=-rss"});
  else if (x.limit && *x.limit < x.total)
    out.push_back({weight::note,
                   "memory",
                   fmt::format("the control group allows {} of {}: the kernel kills processes that "
                               "exceed it",
                               runtime::human_bytes(*x.limit),
                               runtime::human_bytes(x.total)),
                   "check a run before its start: troupe memory, troupe train gpt --dry-run"});
}

void look(const runtime::disk_facts& x, findings& out) {
  const auto folder = x.folder.string();
  if (!x.obstacle.empty())
    out.push_back({weight::missing,
                   "disk",
                   fmt::format("cannot write in '{}': {}", folder, x.obstacle),
                   "cd to a writable folder, or name one for --save and --log-file"});
  else if (x.available < least_disk)
    out.push_back({weight::missing,
                   "disk",
                   fmt::format("'{}' has {} left; a checkpoint takes 12 bytes per parameter",
                               folder,
                               runtime::human_bytes(x.available)),
                   "free space (du -sh *), or put --save on another disk (df -h)"});
  if (x.existing != x.folder)
    out.push_back(
        {weight::note,
         "disk",
         fmt::format("there is no folder '{}'; checked '{}', the nearest above it",
                     folder,
                     x.existing.string()),
         fmt::format("mkdir -p '{}' (--save creates it, too), unless the name is wrong", folder)});
}

void look(const runtime::limit_facts& x, findings& out) {
  if (x.open_files && *x.open_files < least_files)
    out.push_back(
        {weight::missing,
         "limits",
         fmt::format("{} open files are allowed; a run needs {}", *x.open_files, least_files),
         "ulimit -n 1024"});
}

void look(const runtime::transport_facts& x, findings& out) {
  constexpr const char* own = "workers of one process pass tensors on without a copy";
  const bool usable = !x.ucx.empty() && !x.plugin.empty();
  const auto there
      = x.ucx.empty() ? std::string("UCX is not installed; runs of several processes need it")
        : x.plugin.empty()
            ? fmt::format("UCX {} is installed, but its plug-in libtroupe_ucx.so is missing", x.ucx)
            : fmt::format("UCX {} is installed", x.ucx);
  out.push_back(
      {weight::note,
       "transports",
       fmt::format("{}; {}; --transport ucx {}",
                   there,
                   own,
                   usable ? "tests the wires of several processes within one" : "is refused"),
       ""});
}

}  // namespace

std::vector<finding> findings_of(const machine_facts& x) {
  findings out;
  look(x.processor, out);
  look(x.memory, out);
  look(x.disk, out);
  look(x.limits, out);
  add_gpu_findings(x, out);
  look(x.transports, out);
  if (!x.launcher.empty())
    out.push_back({weight::note, "launcher", x.launcher, ""});
  return out;
}

bool can_train(const std::vector<finding>& all) {
  return std::none_of(
      all.begin(), all.end(), [](const finding& x) { return x.severity == weight::missing; });
}

}  // namespace troupe::command
