#include "actors/command/doctor_findings.hpp"

#include "actors/command/doctor_gpu.hpp"
#include "runtime/core/counted.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace troupe::command {
namespace {

using findings = std::vector<finding>;

constexpr std::int64_t mega = 1 << 20;

// The program and its libraries take some 60 MB, the smallest model that teaches anything as much.
constexpr std::int64_t least_memory = 256 * mega;
// A checkpoint of such a model, with its moments, and the log.
constexpr std::int64_t least_disk = 64 * mega;
// A data set, shards and the log; each actor none.
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
         fmt::format("{} of {} processors are left to this process", x.usable(), x.online),
         fmt::format("keep workers x --threads-per-worker at {} or below, or ask for more: "
                     "taskset -p $$, docker run --cpus",
                     x.usable())});
  if (!x.instructions.empty() && !has(x, "avx2") && !has(x, "asimd"))
    out.push_back({weight::note,
                   "processor",
                   "it has no AVX2: everything works, and slowly",
                   "another machine"});
  if (!has(x, "avx512_bf16") && !has(x, "amx_bf16"))
    out.push_back({weight::note,
                   "processor",
                   "it has no bf16 products: --bf16 saves memory and takes as long as fp32",
                   ""});
  for (const auto* slow : {"hpet", "acpi_pm", "xen", "jiffies", "refined-jiffies"})
    if (x.clock == slow)
      out.push_back({weight::note,
                     "clock",
                     fmt::format("the clock source {} is slow to read: traces cost more", x.clock),
                     "as root, where tsc is offered: echo tsc > "
                     "/sys/devices/system/clocksource/clocksource0/current_clocksource"});
}

void look(const runtime::memory_facts& x, findings& out) {
  if (x.usable() < least_memory)
    out.push_back({weight::missing,
                   "memory",
                   fmt::format("{} can be taken; even a small run takes {}",
                               runtime::human_bytes(x.usable()),
                               runtime::human_bytes(least_memory)),
                   x.limit && *x.limit < x.total ? "raise the limit: docker run --memory, systemd "
                                                   "MemoryMax; or end what else runs there"
                                                 : "end what else runs here: ps aux --sort=-rss"});
  else if (x.limit && *x.limit < x.total)
    out.push_back({weight::note,
                   "memory",
                   fmt::format("the control group leaves {} of {}: beyond that the kernel kills",
                               runtime::human_bytes(*x.limit),
                               runtime::human_bytes(x.total)),
                   "look before a run: troupe memory, troupe train gpt --dry-run"});
}

void look(const runtime::disk_facts& x, findings& out) {
  const auto folder = x.folder.string();
  if (!x.obstacle.empty())
    out.push_back({weight::missing,
                   "disk",
                   fmt::format("nothing can be written in '{}': {}", folder, x.obstacle),
                   "cd to a folder of yours, and name --save and --log-file there"});
  else if (x.available < least_disk)
    out.push_back({weight::missing,
                   "disk",
                   fmt::format("'{}' has {} left; a checkpoint takes 12 bytes a parameter",
                               folder,
                               runtime::human_bytes(x.available)),
                   "make room (du -sh *), or name --save on another disk (df -h)"});
  if (x.existing != x.folder)
    out.push_back(
        {weight::note,
         "disk",
         fmt::format("there is no folder '{}'; looked at is the nearest above it, '{}'",
                     folder,
                     x.existing.string()),
         fmt::format("mkdir -p '{}' (--save makes it, too), unless another was meant", folder)});
}

void look(const runtime::limit_facts& x, findings& out) {
  if (x.open_files && *x.open_files < least_files)
    out.push_back(
        {weight::missing,
         "limits",
         fmt::format("{} files may be open at once; a run needs {}", *x.open_files, least_files),
         "ulimit -n 1024"});
}

void look(const runtime::transport_facts& x, findings& out) {
  constexpr const char* own = "workers of one process hand tensors on without a copy";
  const bool usable = !x.ucx.empty() && !x.plugin.empty();
  const auto there
      = x.ucx.empty() ? std::string("UCX is not installed, which runs of several processes need")
        : x.plugin.empty()
            ? fmt::format("UCX {} is there, its plug-in libtroupe_ucx.so is not", x.ucx)
            : fmt::format("UCX {} is there", x.ucx);
  out.push_back({weight::note,
                 "transports",
                 fmt::format("{}; {}; --transport ucx {}",
                             there,
                             own,
                             usable ? "tries the wires of several processes in one" : "is refused"),
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
  return out;
}

bool can_train(const std::vector<finding>& all) {
  return std::none_of(
      all.begin(), all.end(), [](const finding& x) { return x.severity == weight::missing; });
}

}  // namespace troupe::command
