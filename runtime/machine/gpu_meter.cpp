#include "runtime/machine/gpu_meter.hpp"

#include <array>
#include <dlfcn.h>
#include <utility>

namespace troupe::runtime {
namespace {

using nvml_device = void*;
using status = int;
constexpr status success = 0;
constexpr int clock_of_multiprocessors = 1;  // NVML_CLOCK_SM
constexpr int sensor_of_gpu = 0;             // NVML_TEMPERATURE_GPU

struct utilisation_rates {
  unsigned gpu, memory;  ///< percent
};
struct memory_info {
  unsigned long long total, free, used;
};

template <class Function>
void find(void* in, const char* name, Function*& to) {
  to = in == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(in, name));
}

/// PCI address of a device of CUDA, such as "0000:3b:00.0". CUDA_VISIBLE_DEVICES changes CUDA's
/// numbers, but not NVML's.
std::string address_of(void* cuda, int device) {
  status (*start)(unsigned) = nullptr;
  status (*get)(int*, int) = nullptr;
  status (*address)(char*, int, int) = nullptr;
  find(cuda, "cuInit", start);
  find(cuda, "cuDeviceGet", get);
  find(cuda, "cuDeviceGetPCIBusId", address);
  int handle = 0;
  std::array<char, 32> text{};
  if (start == nullptr || get == nullptr || address == nullptr || start(0) != success
      || get(&handle, device) != success
      || address(text.data(), int(text.size()) - 1, handle) != success)
    return "";
  return text.data();
}

}  // namespace

/// Stays loaded: some drivers fail when they are unloaded.
struct gpu_meter::library {
  status (*shut_down)() = nullptr;
  status (*name)(nvml_device, char*, unsigned) = nullptr;
  status (*power)(nvml_device, unsigned*) = nullptr;
  status (*clock)(nvml_device, int, unsigned*) = nullptr;
  status (*utilisation)(nvml_device, utilisation_rates*) = nullptr;
  status (*temperature)(nvml_device, int, unsigned*) = nullptr;
  status (*memory)(nvml_device, memory_info*) = nullptr;
  std::vector<std::pair<int, nvml_device>> devices;  ///< (CUDA's number, handle)

  gpu_reading read(int device, nvml_device of) const {
    gpu_reading out{.device = device, .name = {}};
    std::array<char, 128> text{};
    if (name != nullptr && name(of, text.data(), unsigned(text.size()) - 1) == success)
      out.name = text.data();
    unsigned value = 0;
    if (power != nullptr && power(of, &value) == success)
      out.power_w = value / 1e3;
    if (clock != nullptr && clock(of, clock_of_multiprocessors, &value) == success)
      out.clock_mhz = value;
    if (temperature != nullptr && temperature(of, sensor_of_gpu, &value) == success)
      out.temperature_c = value;
    utilisation_rates rates{};
    if (utilisation != nullptr && utilisation(of, &rates) == success)
      out.utilisation = rates.gpu / 100.0;
    memory_info bytes{};
    if (memory != nullptr && memory(of, &bytes) == success) {
      out.memory_bytes = bytes.used;
      out.memory_total_bytes = bytes.total;
    }
    return out;
  }
};

gpu_meter::gpu_meter(const std::vector<int>& devices, const char* nvml, const char* cuda) {
  void* const handle = ::dlopen(nvml, RTLD_LAZY | RTLD_LOCAL);
  status (*start)() = nullptr;
  status (*by_address)(const char*, nvml_device*) = nullptr;
  find(handle, "nvmlInit_v2", start);
  find(handle, "nvmlDeviceGetHandleByPciBusId_v2", by_address);
  if (start == nullptr || by_address == nullptr || start() != success)
    return;
  library_ = std::make_unique<library>();
  find(handle, "nvmlShutdown", library_->shut_down);
  find(handle, "nvmlDeviceGetName", library_->name);
  find(handle, "nvmlDeviceGetPowerUsage", library_->power);
  find(handle, "nvmlDeviceGetClockInfo", library_->clock);
  find(handle, "nvmlDeviceGetUtilizationRates", library_->utilisation);
  find(handle, "nvmlDeviceGetTemperature", library_->temperature);
  find(handle, "nvmlDeviceGetMemoryInfo", library_->memory);
  void* const driver = ::dlopen(cuda, RTLD_LAZY | RTLD_LOCAL);
  for (const int device : devices) {
    nvml_device found = nullptr;
    const auto address = address_of(driver, device);
    if (!address.empty() && by_address(address.c_str(), &found) == success)
      library_->devices.emplace_back(device, found);
  }
}

gpu_meter::~gpu_meter() {
  if (library_ && library_->shut_down != nullptr)
    library_->shut_down();
}

std::vector<gpu_reading> gpu_meter::read() const {
  std::vector<gpu_reading> out;
  if (library_)
    for (const auto& [device, handle] : library_->devices)
      out.push_back(library_->read(device, handle));
  return out;
}

}  // namespace troupe::runtime
