// Device architectures that this build has code for.

#pragma once

#include <string>
#include <string_view>

namespace troupe::kernels::cuda {

/// Whether a device of this compute capability can run code that was built for `architectures`: the
/// entries of CMake's CUDA_ARCHITECTURES, separated by commas: "80-real,90a-real,90-virtual".
///
/// - Code ("real") runs on devices with the same major number and the same or a later minor number.
/// - PTX ("virtual") runs on all later devices.
/// - An "a" suffix limits code and PTX to exactly that architecture.
/// - An "f" suffix limits code and PTX to that and later architectures of its family, i.e. its
///   major number.
/// - An entry without a number, such as "all", counts as a match.
///
/// Source: NVIDIA, "CUDA C++ Programming Guide", binary and PTX compatibility.
bool runs_on(std::string_view architectures, int major, int minor);

/// The entry that a device uses.
struct device_code {
  int made_for = 0;     ///< 10 * major + minor; 0: none, or an entry without a number
  bool is_ptx = false;  ///< the driver compiles it when a process first needs it

  friend bool operator==(const device_code&, const device_code&) = default;
};

/// The newest code that the device can run, otherwise the newest PTX.
device_code code_for(std::string_view architectures, int major, int minor);

/// Calls code_for with this build's architectures.
device_code code_of_build_for(int major, int minor);

/// Why this build cannot compute on a device of this capability, as a predicate: "is of compute
/// capability 7.5, and ...". Empty if it can.
std::string architecture_obstacle(int major, int minor);

}  // namespace troupe::kernels::cuda
