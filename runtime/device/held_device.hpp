// Lets one process of a run claim a device among the run's processes on its host.

#pragma once

#include <memory>
#include <string>

namespace troupe::runtime {

/// Claims the device with that `device_facts::id` for this process until the handle is destroyed or
/// the process ends, however it ends. Null: another process of that run and user has claimed it.
/// Processes in other network namespaces are not seen. Throws io_error.
[[nodiscard]] std::shared_ptr<void> hold_device(const std::string& run, const std::string& device);

}  // namespace troupe::runtime
