// The devices of the emulated machine, and the frame of each runtime call.

#pragma once

#include "tests/emulator/block.hpp"

#include <utility>

namespace troupe::emulator {

/// The calling thread's current device, from cudaSetDevice.
int current_device();

/// Breaks a device: all calls for it return this error until cudaDeviceReset. Prints the text to
/// stderr.
void break_device(int device, const kernel_failure& by);

/// The error that broke the device, or cudaSuccess.
cudaError_t device_error(int device);
void mend_device(int device);

/// The error of a call before it begins: no driver, a planted fault, a broken device.
cudaError_t obstacle(const char* call);

/// Stores an error for the thread's cudaGetLastError; ignores success.
cudaError_t noted(cudaError_t error);

/// Runs the body of a runtime call that may return an error.
template <class Body>
cudaError_t runtime_call(const char* name, Body&& body) {
  const cudaError_t before = obstacle(name);
  return noted(before != cudaSuccess ? before : std::forward<Body>(body)());
}

/// Prints one line to stderr.
void say(const std::string& text);

}  // namespace troupe::emulator
