#include "kernels/backend/plugin.hpp"
#include "runtime/machine/machine.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <dlfcn.h>
#include <fmt/format.h>
#include <memory>
#include <sstream>
#include <system_error>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

/// An optional shared library. It stays loaded: some drivers fail when they are unloaded.
class maybe_library {
 public:
  explicit maybe_library(const char* name) : handle_(::dlopen(name, RTLD_LAZY | RTLD_LOCAL)) {}

  explicit operator bool() const { return handle_ != nullptr; }

  template <class Function>
  Function* find(const char* name) const {
    return handle_ == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(handle_, name));
  }

 private:
  void* handle_;
};

std::vector<std::string> device_files(const fs::path& folder) {
  std::vector<std::string> out;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(folder, failure)) {
    const auto name = entry.path().filename().string();
    const bool numbered = name.size() > 6 && std::all_of(name.begin() + 6, name.end(), [](char c) {
                            return std::isdigit(static_cast<unsigned char>(c)) != 0;
                          });
    if (name.starts_with("nvidia") && numbered)
      out.push_back("/dev/" + name);
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// Queries the CUDA driver API. It finds the few functions by name, because the build has no CUDA
/// headers here.
void ask_driver(gpu_facts& out) {
  const maybe_library cuda("libcuda.so.1");
  out.driver = bool(cuda);
  auto* start = cuda.find<int(unsigned)>("cuInit");
  auto* version = cuda.find<int(int*)>("cuDriverGetVersion");
  auto* count = cuda.find<int(int*)>("cuDeviceGetCount");
  auto* name = cuda.find<int(char*, int, int)>("cuDeviceGetName");
  int number = 0;
  if (version != nullptr && version(&number) == 0)
    out.driver_version = fmt::format("{}.{}", number / 1000, number % 1000 / 10);
  if (start == nullptr || count == nullptr || name == nullptr || start(0) != 0
      || count(&number) != 0)
    return;
  for (int i = 0; i < number; ++i) {
    std::array<char, 128> text{};
    if (name(text.data(), int(text.size()) - 1, i) == 0)
      out.names.emplace_back(text.data());
  }
}

struct pipe_end {
  void operator()(FILE* pipe) const { ::pclose(pipe); }
};

/// Parses lines such as "#      Transport: tcp".
std::vector<std::string> listed_transports() {
  std::vector<std::string> out;
  const std::unique_ptr<FILE, pipe_end> pipe(::popen("timeout 10 ucx_info -d 2>/dev/null", "r"));
  std::array<char, 512> line{};
  while (pipe != nullptr && std::fgets(line.data(), int(line.size()), pipe.get()) != nullptr) {
    std::istringstream words(line.data());
    std::string hash, key, name;
    words >> hash >> key >> name;
    if (key == "Transport:" && std::find(out.begin(), out.end(), name) == out.end())
      out.push_back(name);
  }
  return out;
}

}  // namespace

gpu_facts look_at_gpus(const fs::path& root) {
  gpu_facts out{.devices = device_files(root / "dev")};
  ask_driver(out);
  out.tool = has_program("nvidia-smi");
  std::error_code failure;
  out.adapters
      = fs::directory_iterator(root / "sys/class/infiniband", failure) != fs::directory_iterator();
  out.direct = fs::exists(root / "sys/module/nvidia_peermem", failure);
  return out;
}

transport_facts look_at_transports() {
  transport_facts out;
  const maybe_library ucp("libucp.so.0");
  if (auto* version = ucp.find<const char*()>("ucp_get_version_string"); version != nullptr)
    out.ucx = version();
  out.plugin = kernels::plugin::find("ucx");
  out.tool = has_program("ucx_info");
  if (out.tool)
    out.transports = listed_transports();
  return out;
}

}  // namespace troupe::runtime
