// Settings of the emulated machine, read once from the environment; tests change them in their
// process.
//
//   TROUPE_EMULATED_DEVICES       Number of devices. Default: 1
//   CUDA_VISIBLE_DEVICES          Numbers of the devices that this process sees, with commas.
//                                 Default: all
//   TROUPE_EMULATED_MEMORY        Bytes per device. Default: 2147483648
//   TROUPE_EMULATED_DRIVER        Version of the driver; 0: no driver. Default: 13000
//   TROUPE_EMULATED_PROCESSORS    Multiprocessors per device. Default: 4
//   TROUPE_EMULATED_ARCHITECTURE  Compute capability, 10 * major + minor, of each device. A list
//                                 with commas; the last entry holds for all further devices.
//                                 Default: 90
//   TROUPE_EMULATED_THREADS       Host threads that run blocks. Default: number of cores, at most 4
//   TROUPE_EMULATED_OCCUPIED      Number of a device that another process uses exclusively.
//                                 Default: no device
//   TROUPE_EMULATED_SEED          Seed of all random choices. Default: 1
//   TROUPE_EMULATED_DELAY_US      Longest sleep of a stream before an item, in microseconds.
//                                 Default: 0
//   TROUPE_EMULATED_COARSE        1: products of narrow types sum as tensor cores do, and
//                                 approximate functions have the largest errors that a device may
//                                 have. Default: 0
//   TROUPE_EMULATED_STUCK         "3@FILE": device 3 works on nothing new while the file exists.
//   TROUPE_EMULATED_FAULT         Failing calls. "cudaMalloc@3=2": the third cudaMalloc fails with
//                                 error 2. "cudaMalloc@3+=2": all from the third on fail. Several
//                                 with commas. An error of a kernel (700, 719) breaks the device.
//                                 Default: no fault
//
// A malformed value ends the process with a message.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe::emulator {

struct settings {
  int devices = 1;           ///< that this process sees
  std::vector<int> visible;  ///< their numbers on the machine
  std::size_t memory = std::size_t{2} << 30;
  int driver = 13000;
  int processors = 4;
  std::vector<int> architectures = {90};
  int threads = 1;
  int occupied = -1;
  std::atomic<std::uint64_t> seed = 1;
  std::atomic<std::uint64_t> delay_us = 0;
  std::atomic<bool> coarse = false;
  int stuck = -1;           ///< number on the machine of a device that is stuck
  std::string stuck_while;  ///< this file exists
};

settings& machine();

/// The number of a device on the machine: equal in all processes.
int number_on_machine(int device);

int architecture_of(int device);

/// See control.hpp.
struct call_counts {
  std::atomic<std::uint64_t> waits = 0, launches = 0, products = 0, warm_products = 0;
};
call_counts& counted();

/// The error planted for this call of `name`, or 0.
int planted_fault(const char* name);

}  // namespace troupe::emulator
