// What the environment says of the emulated machine, read once; tests change it in their process.
//
//   TROUPE_EMULATED_DEVICES   how many devices there are; 1
//   TROUPE_EMULATED_MEMORY    bytes of each; 2147483648
//   TROUPE_EMULATED_DRIVER    the driver's version; 13000. 0: there is no driver
//   TROUPE_EMULATED_PROCESSORS  multiprocessors of each device; 4
//   TROUPE_EMULATED_ARCHITECTURE  its compute capability, 10 * major + minor; 90. Several with
//                             commas: of each device, the last of all that follow
//   TROUPE_EMULATED_THREADS   threads of the host that run blocks; as many as it has, at most 4
//   TROUPE_EMULATED_OCCUPIED  the number of a device that another process has for itself; none
//   TROUPE_EMULATED_SEED      of all that is drawn; 1
//   TROUPE_EMULATED_DELAY_US  the longest sleep before a stream takes up an item; 0
//   TROUPE_EMULATED_COARSE    1: products of narrow types are summed as tensor cores do, and
//                             approximate functions are as wrong as a device's may be; 0
//   TROUPE_EMULATED_FAULT     calls that fail: "cudaMalloc@3=2", the third cudaMalloc with error 2;
//                             several with commas; "cudaMalloc@3+=2": from the third on. What a
//                             kernel's mistake would end the device with (700, 719) ends it here
//
// A text that cannot be read ends the process with a message.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe::emulator {

struct settings {
  int devices = 1;
  std::size_t memory = std::size_t{2} << 30;
  int driver = 13000;
  int processors = 4;
  std::vector<int> architectures = {90};
  int threads = 1;
  int occupied = -1;
  std::atomic<std::uint64_t> seed = 1;
  std::atomic<std::uint64_t> delay_us = 0;
  std::atomic<bool> coarse = false;
};

settings& machine();

int architecture_of(int device);

/// See control.hpp.
struct call_counts {
  std::atomic<std::uint64_t> waits = 0, launches = 0, products = 0, warm_products = 0;
};
call_counts& counted();

/// The error planted for this call of `name`, or 0.
int planted_fault(const char* name);

}  // namespace troupe::emulator
