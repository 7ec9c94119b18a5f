// What the linker knows of a kernel: its name and its shared memory, read from the symbols of the
// file that it lies in.

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace troupe::emulator {

struct kernel_symbols {
  std::string name;  ///< with its template arguments and parameters, as in the source

  /// A variable in the block of its module's thread-local memory.
  struct variable {
    std::size_t offset;
    std::size_t bytes;
  };
  std::size_t module = 0;            ///< the dynamic linker's number of that block; 0: none
  std::vector<variable> shared;      ///< the kernel's own `__shared__` variables
  std::vector<variable> of_helpers;  ///< those of functions that it may call, up to 1 KiB each
  std::size_t shared_bytes = 0;      ///< of its own ones
};

/// The same object for the same kernel; any thread. Without symbols only an address is known.
const kernel_symbols& symbols_of(const void* kernel);

/// Fills a kernel's shared memory of the calling thread with what is not a number: a device does
/// not clear it either.
void poison_shared(const kernel_symbols& of);

inline std::string kernel_name(const void* kernel) {
  return symbols_of(kernel).name;
}

}  // namespace troupe::emulator
