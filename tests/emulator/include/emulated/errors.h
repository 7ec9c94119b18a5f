// Runtime errors that the sources or the emulated device use: X(name, value, text).

#pragma once

#define TROUPE_EMULATED_ERRORS(X)                                                             \
  X(cudaSuccess, 0, "no error")                                                               \
  X(cudaErrorInvalidValue, 1, "an argument is out of its range")                              \
  X(cudaErrorMemoryAllocation, 2, "out of memory")                                            \
  X(cudaErrorInitializationError, 3, "the driver or runtime could not start")                 \
  X(cudaErrorCudartUnloading, 4, "the driver is shutting down")                               \
  X(cudaErrorInvalidConfiguration, 9, "the grid or block exceeds the limits of the device")   \
  X(cudaErrorInvalidMemcpyDirection, 21, "the direction of a copy does not fit its pointers") \
  X(cudaErrorInsufficientDriver, 35, "the driver is missing or older than the runtime needs") \
  X(cudaErrorDevicesUnavailable, 46, "another process has the device for itself")             \
  X(cudaErrorInvalidDeviceFunction, 98, "not a kernel of this device")                        \
  X(cudaErrorNoDevice, 100, "no device was found")                                            \
  X(cudaErrorInvalidDevice, 101, "no device has this number")                                 \
  X(cudaErrorDeviceUninitialized, 201, "no device has been chosen")                           \
  X(cudaErrorNoKernelImageForDevice, 209, "no code for this architecture was built")          \
  X(cudaErrorECCUncorrectable, 214, "an uncorrectable memory error")                          \
  X(cudaErrorInvalidPtx, 218, "the code cannot be translated for this device")                \
  X(cudaErrorUnsupportedPtxVersion, 222, "the toolkit of the code is newer than the driver")  \
  X(cudaErrorOperatingSystem, 304, "the operating system refused a call")                     \
  X(cudaErrorInvalidResourceHandle, 400, "not a stream or event that exists here")            \
  X(cudaErrorNotReady, 600, "not finished yet")                                               \
  X(cudaErrorIllegalAddress, 700, "a kernel touched memory that is not its own")              \
  X(cudaErrorLaunchOutOfResources, 701, "the launch needs more resources than there are")     \
  X(cudaErrorLaunchTimeout, 702, "the launch took too long")                                  \
  X(cudaErrorPeerAccessAlreadyEnabled, 704, "peer access is enabled already")                 \
  X(cudaErrorPeerAccessNotEnabled, 705, "peer access has not been enabled")                   \
  X(cudaErrorContextIsDestroyed, 709, "the context was destroyed")                            \
  X(cudaErrorAssert, 710, "an assertion of a kernel failed")                                  \
  X(cudaErrorHostMemoryAlreadyRegistered, 712, "this host memory is registered already")      \
  X(cudaErrorHostMemoryNotRegistered, 713, "this host memory is not registered")              \
  X(cudaErrorMisalignedAddress, 716, "a kernel used an address that is not aligned")          \
  X(cudaErrorLaunchFailure, 719, "a kernel failed")                                           \
  X(cudaErrorNotPermitted, 800, "not permitted")                                              \
  X(cudaErrorNotSupported, 801, "not supported here")                                         \
  X(cudaErrorSystemDriverMismatch, 803, "driver and runtime do not fit together")             \
  X(cudaErrorUnknown, 999, "an unknown error")
