// The name and the shared memory of a kernel, read from the symbol table of its file.

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace troupe::emulator {

struct kernel_symbols {
  std::string name;  ///< with template arguments and parameters

  /// A variable in the thread-local memory of its module.
  struct variable {
    std::size_t offset;
    std::size_t bytes;
  };
  std::size_t module = 0;            ///< the dynamic linker's module number; 0: none
  std::vector<variable> shared;      ///< the kernel's own `__shared__` variables
  std::vector<variable> of_helpers;  ///< variables of functions that it may call, up to 1 KiB each
  std::size_t shared_bytes = 0;      ///< of `shared`
};

/// Returns the same object for each call with a kernel; callable from any thread. Without symbols
/// the name is the address.
const kernel_symbols& symbols_of(const void* kernel);

/// Fills the kernel's shared memory of the calling thread with NaN; a device does not clear it.
void poison_shared(const kernel_symbols& of);

inline std::string kernel_name(const void* kernel) {
  return symbols_of(kernel).name;
}

}  // namespace troupe::emulator
