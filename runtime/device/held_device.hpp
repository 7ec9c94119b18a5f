// Lets one process of a run claim a device among the run's processes on its host.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Claims the device with that `device_facts::id` for this process until the handle is destroyed or
/// the process ends, however it ends. Null: another process of that run and user has claimed it.
/// Processes in other network namespaces are not seen. Throws io_error.
[[nodiscard]] std::shared_ptr<void> hold_device(const std::string& run, const std::string& device);

/// Claims as many of the devices `all` as `wanted`, or as there are. `hold`: claims one, or returns
/// false. Tries `first` first, then those that follow it, in a circle: so processes that begin at
/// different devices do not compete while there are enough.
std::vector<int> choose_devices(const std::vector<int>& all,
                                std::size_t wanted,
                                std::size_t first,
                                const std::function<bool(int device)>& hold);

}  // namespace troupe::runtime
