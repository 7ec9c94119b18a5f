// For which devices this build has code.

#pragma once

#include <string>
#include <string_view>

namespace troupe::kernels::cuda {

/// Whether a device of that compute capability runs code that was made for `architectures`, as
/// CMake's CUDA_ARCHITECTURES names them with commas between: "80-real,90a-real,90-virtual". Code
/// runs on later devices of the same major number, PTX ("virtual") on all later ones. What ends
/// in "a" runs on that very architecture, and what ends in "f", PTX or not, on it and later ones of
/// its family, which have its major number. A name without a number, as "all", says nothing.
///
/// NVIDIA: "CUDA C++ Programming Guide", binary and PTX compatibility.
bool runs_on(std::string_view architectures, int major, int minor);

/// What of that a device runs.
struct device_code {
  int made_for = 0;     ///< 10 * major + minor; 0: nothing, or a name without a number
  bool is_ptx = false;  ///< the driver makes code of it, when a process first needs it

  friend bool operator==(const device_code&, const device_code&) = default;
};

/// The newest code that it can run, or, where there is none, the newest PTX.
device_code code_for(std::string_view architectures, int major, int minor);

/// The same of this build.
device_code code_of_build_for(int major, int minor);

/// Why nothing can be computed on a device of that capability, a sentence without its subject:
/// "is of compute capability 7.5, and ..."; empty: it can.
std::string architecture_obstacle(int major, int minor);

}  // namespace troupe::kernels::cuda
