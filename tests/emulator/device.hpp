// The devices of the emulated machine and what every call of the runtime does first and last.

#pragma once

#include "tests/emulator/block.hpp"

#include <utility>

namespace troupe::emulator {

/// The calling thread's current device, from cudaSetDevice.
int current_device();

/// Ends what a device can do: until cudaDeviceReset every call for it answers this error. The text
/// goes to the standard error output.
void break_device(int device, const kernel_failure& by);

/// What has broken the device, or cudaSuccess.
cudaError_t device_error(int device);
void mend_device(int device);

/// What stands in the way of a call: no driver, a planted fault, a broken device.
cudaError_t obstacle(const char* call);

/// Kept for the thread's cudaGetLastError, unless it is success.
cudaError_t noted(cudaError_t error);

/// The body of each call of the runtime, which may answer an error.
template <class Body>
cudaError_t runtime_call(const char* name, Body&& body) {
  const cudaError_t before = obstacle(name);
  return noted(before != cudaSuccess ? before : std::forward<Body>(body)());
}

/// On the standard error output, as one line.
void say(const std::string& text);

}  // namespace troupe::emulator
