#include "tests/emulator/device.hpp"

#include "tests/emulator/settings.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <string_view>

namespace troupe::emulator {
namespace {

constexpr int most_devices = 64;
constinit std::array<std::atomic<int>, most_devices> errors = {};
constinit thread_local int chosen = 0;
constinit thread_local cudaError_t last_error = cudaSuccess;

const char* name_of(cudaError_t error) {
  switch (error) {
#define TROUPE_EMULATED_ERROR(name, value, text) \
  case name:                                     \
    return #name;
    TROUPE_EMULATED_ERRORS(TROUPE_EMULATED_ERROR)
#undef TROUPE_EMULATED_ERROR
  }
  return "unrecognized error code";
}

const char* text_of(cudaError_t error) {
  switch (error) {
#define TROUPE_EMULATED_ERROR(name, value, text) \
  case name:                                     \
    return text;
    TROUPE_EMULATED_ERRORS(TROUPE_EMULATED_ERROR)
#undef TROUPE_EMULATED_ERROR
  }
  return "unrecognized error code";
}

/// The runtime must not have a newer major version than the driver.
cudaError_t driver_obstacle() {
  if (machine().driver / 1000 < CUDART_VERSION / 1000)
    return cudaErrorInsufficientDriver;
  return machine().devices == 0 ? cudaErrorNoDevice : cudaSuccess;
}

/// True for errors of kernels that persist in the context, such as an illegal address.
bool ends_a_device(int error) {
  return error == 700 || error == 710 || (error >= 714 && error <= 719);
}

bool exists(int device) {
  return device >= 0 && device < machine().devices;
}

/// True for calls that do not start to use the current device.
bool only_asks(std::string_view call) {
  return call == "cudaGetDevice" || call == "cudaGetDeviceProperties"
         || call == "cudaDeviceGetAttribute" || call == "cudaDeviceGetPCIBusId"
         || call == "cudaDeviceCanAccessPeer" || call == "cudaGetDeviceFlags";
}

}  // namespace

int current_device() {
  return chosen;
}

void say(const std::string& text) {
  const std::string line = "emulated device: " + text + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void break_device(int device, const kernel_failure& by) {
  say("device " + std::to_string(device) + ": " + by.text);
  int none = 0;
  errors[std::size_t(device)].compare_exchange_strong(none, int(by.error));
}

cudaError_t device_error(int device) {
  return cudaError_t(errors[std::size_t(device)].load());
}

void mend_device(int device) {
  errors[std::size_t(device)] = 0;
}

cudaError_t obstacle(const char* call) {
  if (const auto driver = driver_obstacle(); driver != cudaSuccess)
    return driver;
  if (const int planted = planted_fault(call); planted != 0) {
    if (ends_a_device(planted))
      break_device(chosen, {cudaError_t(planted), std::string(call) + ": a planted error"});
    return cudaError_t(planted);
  }
  if (chosen == machine().occupied && !only_asks(call))
    return cudaErrorDevicesUnavailable;
  return device_error(chosen);
}

cudaError_t noted(cudaError_t error) {
  if (error != cudaSuccess)
    last_error = error;
  return error;
}

}  // namespace troupe::emulator

using namespace troupe::emulator;

extern "C" {

cudaError_t cudaGetLastError() {
  const cudaError_t last = cudaPeekAtLastError();
  last_error = cudaSuccess;
  return last;
}

cudaError_t cudaPeekAtLastError() {
  const cudaError_t broken = device_error(chosen);
  return broken != cudaSuccess ? broken : last_error;
}

const char* cudaGetErrorName(cudaError_t error) {
  return name_of(error);
}

const char* cudaGetErrorString(cudaError_t error) {
  return text_of(error);
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = machine().driver;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  const cudaError_t before = driver_obstacle();
  if (before == cudaSuccess)
    *count = machine().devices;
  return noted(before);
}

cudaError_t cudaSetDevice(int device) {
  if (const auto driver = driver_obstacle(); driver != cudaSuccess)
    return noted(driver);
  if (!exists(device))
    return noted(cudaErrorInvalidDevice);
  if (const int planted = planted_fault("cudaSetDevice"); planted != 0)
    return noted(cudaError_t(planted));
  if (device == machine().occupied)
    return noted(cudaErrorDevicesUnavailable);
  chosen = device;
  return noted(device_error(device));
}

cudaError_t cudaGetDevice(int* device) {
  return runtime_call("cudaGetDevice", [&] {
    *device = chosen;
    return cudaSuccess;
  });
}

}  // extern "C"
