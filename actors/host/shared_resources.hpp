// Resources of a process for each actor that it hosts. A part of the context (context.hpp).

#pragma once

#include "actors/host/environment.hpp"
#include "actors/host/opened_job.hpp"
#include "actors/host/registries.hpp"
#include "actors/support/message_path.hpp"
#include "runtime/device/lane_board.hpp"
#include "runtime/transport/transport.hpp"

#include <memory>

namespace troupe::actors {

class neighbours;

/// Factor on the suspicion timeout for actors that read or write disks: they cannot report progress
/// during a system call.
inline constexpr double patience_with_disks = 4;

struct shared_resources {
  std::shared_ptr<const message_path> messages = {};
  std::shared_ptr<runtime::transport> transport = {};
  /// Connections to the other processes of the run; null in single-process runs.
  std::shared_ptr<actors::neighbours> neighbours = {};
  environment env = {};
  /// Jobs that this process has received, with its functions registered by name.
  std::shared_ptr<job_registry> jobs = std::make_shared<job_registry>();
  std::shared_ptr<runtime::lane_board> lanes = std::make_shared<runtime::lane_board>();
  std::shared_ptr<living_registry> living = std::make_shared<living_registry>();
};

}  // namespace troupe::actors
