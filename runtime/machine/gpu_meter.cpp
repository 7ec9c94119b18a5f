#include "runtime/machine/gpu_meter.hpp"

#include "runtime/core/thread.hpp"

#include <array>
#include <condition_variable>
#include <dlfcn.h>
#include <mutex>
#include <utility>

namespace troupe::runtime {
namespace {

using nvml_device = void*;
using status = int;
constexpr status success = 0;
constexpr int clock_of_multiprocessors = 1;  // NVML_CLOCK_SM
constexpr int sensor_of_gpu = 0;             // NVML_TEMPERATURE_GPU

using utilisation_rates = std::array<unsigned, 2>;      ///< percent: GPU, memory
using memory_info = std::array<unsigned long long, 3>;  ///< bytes: total, free, used

template <class Function>
void find(void* in, const char* name, Function*& to) {
  to = in == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(in, name));
}

/// PCI address of a CUDA device, such as "0000:3b:00.0"; empty if unknown. Device numbers do not
/// identify a GPU: CUDA_VISIBLE_DEVICES changes CUDA's numbers, but not NVML's.
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

/// Functions of NVML. The library stays loaded, because some drivers fail when it is unloaded.
struct gpu_meter::library {
  status (*shut_down)() = nullptr;
  status (*name)(nvml_device, char*, unsigned) = nullptr;
  status (*power)(nvml_device, unsigned*) = nullptr;
  status (*clock)(nvml_device, int, unsigned*) = nullptr;
  status (*utilisation)(nvml_device, unsigned*) = nullptr;  ///< utilisation_rates
  status (*temperature)(nvml_device, int, unsigned*) = nullptr;
  status (*memory)(nvml_device, unsigned long long*) = nullptr;  ///< memory_info
  std::vector<std::pair<int, nvml_device>> devices;  ///< (CUDA device number, NVML handle)

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
    if (utilisation != nullptr && utilisation(of, rates.data()) == success)
      out.utilisation = rates[0] / 100.0;
    memory_info bytes{};
    if (memory != nullptr && memory(of, bytes.data()) == success) {
      out.memory_bytes = bytes[2];
      out.memory_total_bytes = bytes[0];
    }
    return out;
  }
};

/// Shared with the background thread, which may outlive the meter while a call of the driver hangs.
struct gpu_meter::state {
  std::vector<int> devices;
  std::string nvml, cuda;

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<gpu_reading> newest;
  bool asked = false, ends = false;

  void run() {
    const auto found = open();
    std::unique_lock lock(mutex);
    while (!ends) {
      changed.wait(lock, [this] { return asked || ends; });
      if (ends)
        break;
      asked = false;
      lock.unlock();
      std::vector<gpu_reading> readings;
      for (const auto& [device, handle] : found.devices)
        readings.push_back(found.read(device, handle));
      lock.lock();
      newest = std::move(readings);
    }
    lock.unlock();
    if (found.shut_down != nullptr)
      found.shut_down();
  }

  library open() const;
};

gpu_meter::library gpu_meter::state::open() const {
  library out;
  void* const handle = ::dlopen(nvml.c_str(), RTLD_LAZY | RTLD_LOCAL);
  status (*start)() = nullptr;
  status (*by_address)(const char*, nvml_device*) = nullptr;
  find(handle, "nvmlInit_v2", start);
  find(handle, "nvmlDeviceGetHandleByPciBusId_v2", by_address);
  if (start == nullptr || by_address == nullptr || start() != success)
    return out;
  find(handle, "nvmlShutdown", out.shut_down);
  find(handle, "nvmlDeviceGetName", out.name);
  find(handle, "nvmlDeviceGetPowerUsage", out.power);
  find(handle, "nvmlDeviceGetClockInfo", out.clock);
  find(handle, "nvmlDeviceGetUtilizationRates", out.utilisation);
  find(handle, "nvmlDeviceGetTemperature", out.temperature);
  find(handle, "nvmlDeviceGetMemoryInfo", out.memory);
  void* const driver = ::dlopen(cuda.c_str(), RTLD_LAZY | RTLD_LOCAL);
  for (const int device : devices) {
    nvml_device found = nullptr;
    const auto address = address_of(driver, device);
    if (!address.empty() && by_address(address.c_str(), &found) == success)
      out.devices.emplace_back(device, found);
  }
  return out;
}

gpu_meter::gpu_meter(const std::vector<int>& devices, const char* nvml, const char* cuda)
    : state_(std::make_shared<state>()) {
  state_->devices = devices;
  state_->nvml = nvml;
  state_->cuda = cuda;
  start_thread("gpu-meter", [of = state_] { of->run(); }).detach();
}

gpu_meter::~gpu_meter() {
  const std::lock_guard lock(state_->mutex);
  state_->ends = true;
  state_->changed.notify_all();
}

std::vector<gpu_reading> gpu_meter::read() const {
  const std::lock_guard lock(state_->mutex);
  state_->asked = true;
  state_->changed.notify_all();
  return state_->newest;
}

}  // namespace troupe::runtime
