#include "actors/command/doctor_gpu.hpp"

#include "runtime/core/counted.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <sstream>

namespace troupe::command {
namespace {

using nlohmann::ordered_json;
using runtime::plugin_facts;

constexpr const char* on_processors = "runs compute on processors";

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

/// Advice for a plug-in that could not be opened, by the message of the loader or of plugin.cpp.
std::string remedy_of_closed(const plugin_facts& x) {
  if (contains(x.reason, "another build"))
    return "use the program and its plug-ins of one build (cmake --build ... --target troupe "
           "plugins), or name that build's folder in TROUPE_PLUGINS";
  if (contains(x.reason, "cannot open shared object file"))
    return x.name == "cuda" ? "install cuBLAS of CUDA 13 (apt-get install libcublas-13-0, of "
                              "NVIDIA's repository), or name its folder in LD_LIBRARY_PATH"
           : x.name == "cudnn"
               ? "install cuDNN 9 (apt-get install libcudnn9-cuda-13, of NVIDIA's repository), or "
                 "name its folder in LD_LIBRARY_PATH"
               : "install NCCL (apt-get install libnccl2, of NVIDIA's repository), or name its "
                 "folder in LD_LIBRARY_PATH";
  return "build or install it again: the file is damaged, or made for another processor";
}

std::string remedy_of_missing(const char* needed) {
  return fmt::format(
      "build troupe on a machine with {} (cmake prints what it finds), or name the folder of the "
      "plug-ins in TROUPE_PLUGINS",
      needed);
}

std::string remedy_of_obstacle(const std::string& obstacle) {
  if (contains(obstacle, "no NVIDIA driver"))
    return "apt-get install nvidia-driver, of Debian's non-free part; in a container: docker run "
           "--gpus all";
  if (contains(obstacle, "serves CUDA up to"))
    return "install a newer driver (nvidia-smi shows the present one), or build troupe with an "
           "older CUDA toolkit";
  if (contains(obstacle, "compute capability"))
    return "use another device, or build troupe for this one if cmake/cuda.cmake supports it: "
           "cmake -DTROUPE_CUDA_ARCHITECTURES=...";
  return "check nvidia-smi, CUDA_VISIBLE_DEVICES and dmesg | grep NVRM";
}

void note(std::vector<finding>& out, std::string text, std::string remedy) {
  out.push_back({weight::note, "GPU", std::move(text), std::move(remedy)});
}

/// Checks the CUDA plug-in of a machine that may have a GPU. Returns whether it can compute.
bool look_at_cuda(const machine_facts& x, std::vector<finding>& out) {
  const auto& cuda = x.accelerators.cuda;
  if (cuda.path.empty()) {
    note(out,
         fmt::format("this build has no CUDA plug-in: {}", on_processors),
         remedy_of_missing("nvcc of CUDA 12 or later"));
    return false;
  }
  if (!cuda.opened) {
    note(out, fmt::format("{}; {}", cuda.reason, on_processors), remedy_of_closed(cuda));
    return false;
  }
  if (!cuda.obstacle.empty()) {
    note(out,
         fmt::format("{}; {}", cuda.obstacle, on_processors),
         remedy_of_obstacle(cuda.obstacle));
    return false;
  }
  return true;
}

/// Adds a note for each line.
void note_missing_attention(const std::string& lines, std::vector<finding>& out) {
  std::istringstream from(lines);
  for (std::string line; std::getline(from, line);)
    note(
        out,
        "attention by cuDNN: " + line,
        line.find("compute capability") != std::string::npos
            ? "set TROUPE_ATTENTION=cudnn,own to compute it by troupe's tensor-core kernels"
            : "cuDNN compiles its kernels with NVRTC: install it (apt-get install "
              "cuda-nvrtc-13-0, of NVIDIA's repository), or name its folder in LD_LIBRARY_PATH; if "
              "NVRTC is installed, try a later cuDNN; or set TROUPE_ATTENTION=scalar to use "
              "troupe's own kernel");
}

/// Checks cuDNN and NCCL, which are optional.
void look_at_others(const machine_facts& x, std::vector<finding>& out) {
  const auto& [cuda, cudnn, nccl, driver, devices, attention, obstacle, missing] = x.accelerators;
  if (!obstacle.empty())
    note(out, obstacle, "unset TROUPE_ATTENTION: then cuDNN's kernels are used if they work");
  else if (cudnn.path.empty())
    note(out,
         "this build has no cuDNN plug-in: attention uses troupe's own kernels, which are slower",
         remedy_of_missing("cuDNN 9.16 or later"));
  else if (!cudnn.opened)
    note(out,
         fmt::format("{}; attention uses troupe's own kernels, which are slower", cudnn.reason),
         remedy_of_closed(cudnn));
  else if (!cudnn.obstacle.empty())
    note(out,
         fmt::format("{}; attention uses troupe's own kernels, which are slower", cudnn.obstacle),
         "install cuDNN 9.16 or later (apt-get install libcudnn9-cuda-13, of NVIDIA's repository)");
  else
    note_missing_attention(missing, out);
  if (devices.size() < 2 || nccl.opened)
    return;  // one device has no peer
  const auto what = fmt::format(
      "; workers of these {} devices read each other's memory by default (--collectives local): "
      "only --collectives nccl and nccl-fast need it",
      devices.size());
  if (nccl.path.empty())
    note(out, "this build has no NCCL plug-in" + what, remedy_of_missing("NCCL"));
  else
    note(out, nccl.reason + what, remedy_of_closed(nccl));
}

/// Checks what ranks on several devices exchange data by.
void look_at_links(const machine_facts& x, std::vector<finding>& out) {
  constexpr std::int64_t enough = std::int64_t{256} << 20;
  const auto& devices = x.accelerators.devices;
  const auto& shared = x.limits.shared_memory;
  const auto& locked = x.limits.locked_memory;
  for (const auto& device : devices)
    if (device.obstacle.empty() && !device.hidden.empty())
      note(out,
           fmt::format("device {} cannot read the memory of {}: in one process, --collectives "
                       "local is refused for sums over them, and NCCL goes through host memory",
                       device.number,
                       fmt::join(device.hidden, ", ")),
           "nvidia-smi topo -p2p r shows why; use --collectives nccl, or one process per device");
  if (devices.size() > 1 && shared && *shared < enough)
    note(out,
         fmt::format("/dev/shm has {}: NCCL may not find room there for buffers between processes "
                     "of this host",
                     runtime::human_bytes(double(*shared))),
         "mount -o remount,size=1G /dev/shm; in a container, docker run --shm-size=1g");
  if (!x.gpus.adapters)
    return;
  if (!x.gpus.direct)
    note(out,
         "nvidia_peermem is not loaded: unless NCCL finds DMA-BUF, data between hosts goes through "
         "host memory (no GPUDirect RDMA)",
         "modprobe nvidia_peermem");
  if (locked)
    note(
        out,
        fmt::format("only {} of memory may be locked: InfiniBand and RoCE adapters lock the memory "
                    "that they send",
                    runtime::human_bytes(double(*locked))),
        "ulimit -l unlimited; in a container, docker run --ulimit memlock=-1");
}

std::string plugin_text(const plugin_facts& x) {
  if (x.path.empty())
    return fmt::format("{}: not in this build", x.name);
  if (!x.opened)
    return fmt::format("{}: '{}', not opened", x.name, x.path);
  return fmt::format("{}: '{}', {}", x.name, x.path, x.library);
}

std::string code_text(const runtime::device_facts& x) {
  return fmt::format("{} for {}", x.compiles ? "PTX" : "code", x.code);
}

std::string device_text(const runtime::device_facts& x) {
  return fmt::format("{}, compute capability {}.{}, {}, {}{}",
                     x.name,
                     x.major,
                     x.minor,
                     runtime::counted(std::int64_t(x.multiprocessors), "multiprocessor"),
                     runtime::human_bytes(double(x.memory)),
                     x.code.empty() ? "" : fmt::format("; runs {}", code_text(x)));
}

std::string driver_text(const machine_facts& x) {
  const auto& driver = x.accelerators.driver;
  const auto& gpus = x.gpus;
  std::string out = fmt::format(
      "devices {}; libcuda.so.1 {}; nvidia-smi {}",
      gpus.devices.empty() ? "none" : fmt::format("{}", fmt::join(gpus.devices, ", ")),
      gpus.driver ? "serves CUDA " + gpus.driver_version : "absent",
      gpus.tool ? "present" : "absent");
  if (driver)
    out += fmt::format(
        "; the driver serves CUDA {}, the plug-in has CUDA {}", driver->driver, driver->runtime);
  else if (!gpus.names.empty())
    out += fmt::format("; the driver sees {}", fmt::join(gpus.names, ", "));
  return out;
}

ordered_json plugin_json(const plugin_facts& x) {
  return {{"path", x.path},
          {"opened", x.opened},
          {"reason", x.reason},
          {"library", x.library},
          {"obstacle", x.obstacle}};
}

ordered_json device_json(const runtime::device_facts& x) {
  return {{"number", x.number},
          {"name", x.name},
          {"compute_capability", fmt::format("{}.{}", x.major, x.minor)},
          {"multiprocessors", x.multiprocessors},
          {"memory", x.memory},
          {"obstacle", x.obstacle},
          {"code", x.code},
          {"compiles", x.compiles},
          {"id", x.id},
          {"hidden", x.hidden}};
}

}  // namespace

bool may_have_gpu(const machine_facts& x) {
  const auto& a = x.accelerators;
  const bool refused = !a.cuda.reason.empty() || !a.cuda.obstacle.empty();
  return !x.gpus.devices.empty() || x.gpus.driver || !a.devices.empty()
         || (!a.cuda.path.empty() && refused);
}

void add_gpu_findings(const machine_facts& x, std::vector<finding>& out) {
  if (!may_have_gpu(x) || !look_at_cuda(x, out))
    return;
  look_at_others(x, out);
  look_at_links(x, out);
  const auto& devices = x.accelerators.devices;
  const auto able = std::count_if(
      devices.begin(), devices.end(), [](const auto& d) { return d.obstacle.empty(); });
  for (const auto& device : devices)
    if (!device.obstacle.empty())
      note(out,
           fmt::format("device {} {}: runs do not use it", device.number, device.obstacle),
           remedy_of_obstacle(device.obstacle));
  for (const auto& device : devices)
    if (device.obstacle.empty() && device.compiles)
      note(out,
           fmt::format("device {} runs {}: the driver compiles it at its first use, which may "
                       "take minutes, and keeps the result in ~/.nv/ComputeCache",
                       device.number,
                       code_text(device)),
           fmt::format("build for this device, with a toolkit that supports it (Blackwell: CUDA "
                       "12.8): cmake -DTROUPE_CUDA_ARCHITECTURES={}{}-real",
                       device.major,
                       device.minor));
  note(
      out,
      fmt::format("{} can compute: --backend cuda", runtime::counted(std::int64_t(able), "device")),
      "");
}

std::vector<std::pair<std::string, std::string>> gpu_lines(const machine_facts& x) {
  if (!may_have_gpu(x))
    return {{"GPU", fmt::format("none: {}", on_processors)}};
  const auto& a = x.accelerators;
  std::vector<std::pair<std::string, std::string>> out{{"GPU", driver_text(x)}};
  for (const auto& device : a.devices)
    out.emplace_back(fmt::format("device {}", device.number), device_text(device));
  out.emplace_back("plug-ins", plugin_text(a.cuda));
  out.emplace_back("", plugin_text(a.cudnn));
  out.emplace_back("", plugin_text(a.nccl));
  if (!a.attention.empty())
    out.emplace_back("", a.attention);
  return out;
}

ordered_json gpu_json(const machine_facts& x) {
  const auto& a = x.accelerators;
  ordered_json out{{"devices", x.gpus.devices},
                   {"driver", x.gpus.driver},
                   {"driver_version", x.gpus.driver_version},
                   {"names", x.gpus.names},
                   {"nvidia_smi", x.gpus.tool},
                   {"plugins",
                    {{"cuda", plugin_json(a.cuda)},
                     {"cudnn", plugin_json(a.cudnn)},
                     {"nccl", plugin_json(a.nccl)}}},
                   {"cuda", nullptr},
                   {"seen", ordered_json::array()},
                   {"attention", a.attention},
                   {"attention_missing", a.attention_missing}};
  if (a.driver)
    out["cuda"] = {{"driver", a.driver->driver}, {"runtime", a.driver->runtime}};
  for (const auto& device : a.devices)
    out["seen"].push_back(device_json(device));
  return out;
}

}  // namespace troupe::command
